"""Reports: made from result files only, imported by nothing but the verbs."""
