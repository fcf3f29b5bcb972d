"""Programs beside a replica: the shim with its modules, and the preloader. Standard library only."""
