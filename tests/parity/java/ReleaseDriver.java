import java.io.PrintStream;
import java.lang.annotation.Annotation;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.TreeMap;
import java.util.Map;
import com.fasterxml.jackson.databind.ObjectMapper;

/**
 * Reads what a released {@code ServiceConfiguration} has: every field with its default and whether it is dynamic.
 *
 * <p>Usage: ReleaseDriver. One JSON object {"fields": {key: [default, dynamic]}} is printed.
 */
public class ReleaseDriver {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err);
        Class<?> type = Class.forName("org.apache.pulsar.broker.ServiceConfiguration");
        Object made = type.getDeclaredConstructor().newInstance();
        Map<String, Object[]> fields = new TreeMap<>();
        for (Field field : type.getDeclaredFields()) {
            for (Annotation annotation : field.getAnnotations()) {
                if (annotation.annotationType().getSimpleName().equals("FieldContext")) {
                    field.setAccessible(true);
                    Object isDynamic = annotation.annotationType().getMethod("dynamic").invoke(annotation);
                    Object value = field.get(made);
                    fields.put(field.getName(), new Object[] {value == null ? null : value.toString(), isDynamic});
                }
            }
        }
        out.println(new ObjectMapper().writeValueAsString(Map.of("fields", fields)));
        out.flush();
        Runtime.getRuntime().halt(0);
    }
}
