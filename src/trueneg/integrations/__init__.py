"""trueneg within other frameworks; each module requires the package that it is named after."""
