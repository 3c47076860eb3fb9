"""The ingress controller: Routes and Ingresses become haproxy's configuration, and are told what became of them."""
