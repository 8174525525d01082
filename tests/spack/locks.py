"""A spack.lock made up."""


def lock(*roots):
    """A lock file of 0.23's and 1.x's form, as far as it is read, of benchios with other HDF5s."""

    def needs(key, name, *types):
        return {"name": name, "hash": key, "parameters": {"deptypes": types, "virtuals": []}}

    specs = {
        "c0": {"name": "cmake", "version": "3.25.1", "parameters": {}},
        "m0": {"name": "openmpi", "version": "4.1.4", "parameters": {}},
        "d0": {"name": "darshan-runtime", "version": "3.4.6", "parameters": {}},
    }
    for key, hdf5 in roots:
        specs[f"h{key}"] = {"name": "hdf5", "version": hdf5, "parameters": {"mpi": True}}
        specs[key] = {
            "name": "benchio",
            "version": "git.0123=main",
            "parameters": {"build_type": "Release", "hdf5": True, "netcdf": False, "cflags": []},
            "dependencies": [
                needs("c0", "cmake", "build"),
                needs("m0", "openmpi", "build", "link"),
                needs(f"h{key}", "hdf5", "build", "link"),
            ],
        }
    return {
        "roots": [{"hash": key, "spec": "-"} for key in ["d0", *(key for key, _ in roots)]],
        "concrete_specs": specs,
    }
