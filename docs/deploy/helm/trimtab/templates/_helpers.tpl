{{- define "trimtab.fullname" -}}
{{- if contains "trimtab" .Release.Name }}{{ .Release.Name | trunc 63 | trimSuffix "-" }}{{ else }}{{ printf "%s-trimtab" .Release.Name | trunc 63 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "trimtab.selector" -}}
app.kubernetes.io/name: trimtab
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "trimtab.labels" -}}
{{ include "trimtab.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "trimtab.serviceAccountName" -}}
{{ .Values.serviceAccount.name | default (ternary (include "trimtab.fullname" .) "default" .Values.serviceAccount.create) }}
{{- end }}

{{/* Image by digest, or by an explicit tag. */}}
{{- define "trimtab.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{- if not (regexMatch "^sha256:[0-9a-f]{64}$" .digest) }}{{ fail "image.digest is not sha256: and 64 hexadecimal digits." }}{{ end -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ required "Set image.digest to the sha256 of the image in your registry (docker push prints it), or image.tag for an image that was never pushed." .tag }}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Common part of every container: image, identity, mounts. Arguments: root, container name. */}}
{{- define "trimtab.container" -}}
image: {{ include "trimtab.image" .root | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext:
  runAsNonRoot: true
  privileged: false
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: { drop: [ALL] }
env:
  - { name: TRIMTAB_CONFIG, value: /etc/trimtab/trimtab.toml }
  - { name: HOME, value: /home/trimtab }
  {{- with .root.Values.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
resources:
  {{- toYaml (index .root.Values.resources .name) | nindent 2 }}
volumeMounts:
  - { name: config, mountPath: /etc/trimtab, readOnly: true }
  - { name: state, mountPath: /var/lib/trimtab }
  - { name: scratch, mountPath: /tmp, subPath: tmp }
  - { name: scratch, mountPath: /home/trimtab, subPath: home }
  {{- range .root.Values.secrets }}
  - { name: {{ printf "secret-%s" .name | quote }}, mountPath: {{ printf "/etc/trimtab-secrets/%s" .name | quote }}, readOnly: true }
  {{- end }}
{{- end }}
