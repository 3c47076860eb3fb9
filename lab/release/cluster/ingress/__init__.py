"""The ingress controller: Routes and Ingresses become haproxy's configuration, with the outcome in their statuses."""
