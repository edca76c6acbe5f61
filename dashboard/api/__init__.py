"""The HTTP interface: answers and requests as JSON, described as OpenAPI and as a page.

A resource is declared once (:class:`dashboard.api.resource.Resource`): its route, its parameters
and its description follow from that. It calls the same functions as commands and pages, with the
roles of the caller, and has no rule of its own.
"""
