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

    public :: learn_versions, library_version, new_backend

    character(*), parameter, public :: backend_names(5) = [character(7) :: &
        'mpiio', 'hdf5', 'netcdf', 'pnetcdf', 'posix']

    !> Versions that libraries have told; blank until then, or of one that is not built in.
    character(256) :: told(size(backend_names)) = ''

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

    !> Asks a backend's library for its version at run time; empty if it is not built in. Each
    !> library is asked once: a report may be due while one is busy in another thread.
    function library_version(name) result(text)
        character(*), intent(in) :: name
        character(:), allocatable :: text

        type(backend_item) :: item

        associate (known => told(findloc(backend_names, name, 1)))
            if (known == '') then
                item = new_backend(name)
                if (allocated(item%method)) known = item%method%version()
            end if
            text = trim(known)
        end associate
    end function library_version

    !> Asks all libraries.
    subroutine learn_versions()
        character(:), allocatable :: ignored
        integer :: i

        do i = 1, size(backend_names)
            ignored = library_version(trim(backend_names(i)))
        end do
    end subroutine learn_versions

end module benchio_registry
