"""What is wrong with a Pegasus cluster: one function a rule, one line of it in ``registry``."""
