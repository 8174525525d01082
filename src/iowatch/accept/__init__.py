"""An acceptance test: criteria, evidence, dossier."""
