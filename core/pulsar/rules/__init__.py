"""What is wrong with a Pulsar cluster: one function a rule, one line of it in ``registry``."""
