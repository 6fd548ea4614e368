"""trueneg inside other frameworks; each module needs the package that it is named for."""
