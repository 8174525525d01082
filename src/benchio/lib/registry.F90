!> The backends of this build. A new backend is a file and its lines here.
module benchio_registry
    use benchio_backend, only: backend
    use benchio_mpiio_backend, only: new_mpiio
    use benchio_posix_backend, only: new_posix
#ifdef BENCHIO_HDF5
    use benchio_hdf5_backend, only: new_hdf5
#endif
#ifdef BENCHIO_NETCDF
    use benchio_netcdf_backend, only: new_netcdf
#endif
#ifdef BENCHIO_PNETCDF
    use benchio_pnetcdf_backend, only: new_pnetcdf
#endif
    implicit none (type, external)
    private

    public :: library_version, new_backend

    character(*), parameter, public :: backend_names(5) = [character(7) :: &
        'mpiio', 'hdf5', 'netcdf', 'pnetcdf', 'posix']

    !> A backend of a list.
    type, public :: backend_item
        class(backend), allocatable :: method
    end type backend_item

contains

    !> Constructs a backend by its name; it is not allocated if this build lacks it.
    function new_backend(name) result(item)
        character(*), intent(in) :: name
        type(backend_item) :: item

        select case (name)
        case ('mpiio')
            allocate (item%method, source=new_mpiio())
        case ('posix')
            allocate (item%method, source=new_posix())
#ifdef BENCHIO_HDF5
        case ('hdf5')
            allocate (item%method, source=new_hdf5())
#endif
#ifdef BENCHIO_NETCDF
        case ('netcdf')
            allocate (item%method, source=new_netcdf())
#endif
#ifdef BENCHIO_PNETCDF
        case ('pnetcdf')
            allocate (item%method, source=new_pnetcdf())
#endif
        case default        ! not in this build
        end select
    end function new_backend

    !> Asks a backend's library for its version at run time; empty if it is not built in.
    function library_version(name) result(text)
        character(*), intent(in) :: name
        character(:), allocatable :: text

        type(backend_item) :: item

        text = ''
        item = new_backend(name)
        if (allocated(item%method)) text = item%method%version()
    end function library_version

end module benchio_registry
