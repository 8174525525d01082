"""A procurement's acceptance test: contract, evidence, verdicts on its criteria, dossier."""
