!> The backends of this build. A new backend is a file and its lines here.
module benchio_registry
    use mpi_f08, only: MPI_Comm
    use benchio_access, only: access_pattern
    use benchio_backend, only: backend
    use benchio_failure, only: agree, exit_not_built_in, exit_usage, failure
    use benchio_mpiio_backend, only: mpiio_backend
    use benchio_options, only: options
    use benchio_posix_backend, only: posix_backend
    use benchio_text, only: listed
#ifdef BENCHIO_HDF5
    use benchio_hdf5_backend, only: hdf5_backend, start_hdf5
#endif
#ifdef BENCHIO_NETCDF
    use benchio_netcdf_backend, only: netcdf_backend
#endif
#ifdef BENCHIO_PNETCDF
    use benchio_pnetcdf_backend, only: pnetcdf_backend
#endif
#ifdef BENCHIO_ADIOS2
    use benchio_adios2_backend, only: adios2_backend, start_adios2
#endif
    implicit none (type, external)
    private

    public :: choose_backends, learn_versions, new_backend

    character(*), parameter, public :: backend_names(6) = [character(7) :: &
        'mpiio', 'hdf5', 'netcdf', 'pnetcdf', 'adios2', 'posix']

    !> Extensions of the backends' files, without the dot.
    character(*), parameter :: extensions(size(backend_names)) = [character(3) :: &
        'dat', 'h5', 'nc', 'nc', 'bp', 'dat']

    !> Their libraries, as the result calls these; system calls have none.
    character(*), parameter, public :: libraries(size(backend_names)) = [character(7) :: &
        'mpi', 'hdf5', 'netcdf', 'pnetcdf', 'adios2', '']

    !> Versions of the backends' libraries; blank until they are learnt, or of one not built in.
    character(256), protected, public :: versions(size(backend_names)) = ''

    !> A backend of a list.
    type, public :: backend_item
        class(backend), allocatable :: method
    end type backend_item

contains

    !> Chooses a backend of each name. Collective. Fails with exit_usage where a name is not known
    !> or a backend cannot do what is asked for, and with exit_not_built_in where this build cannot.
    subroutine choose_backends(choice, comm, methods, error)
        type(options), intent(in) :: choice
        type(MPI_Comm), intent(in) :: comm
        type(backend_item), allocatable, intent(out) :: methods(:)
        type(failure), intent(inout) :: error

        type(access_pattern) :: heeded
        character(:), allocatable :: name
        logical :: makes_subfiles, posts
        integer :: i

        makes_subfiles = .false.
        posts = .false.
        allocate (methods(size(choice%backends)))
        do i = 1, size(methods)
            name = trim(choice%backends(i))
            methods(i) = new_backend(name)
            if (all(backend_names /= name)) then
                call error%set(exit_usage, '', '', '--backend does not know "'//name &
                    //'"; there are '//listed(backend_names, 'and'))
            else if (.not. allocated(methods(i)%method)) then
                call error%set(exit_not_built_in, '', '', 'backend '//name//' is not built in: ' &
                    //'it was configured without that library')
            else
                error = methods(i)%method%objection(choice%settings)
            end if
            call agree(error, comm)         ! one node's environment may be the reason
            if (error%failed()) return
            heeded = methods(i)%method%heeded(choice%settings%access)
            posts = posts .or. heeded%is_nonblocking
            makes_subfiles = makes_subfiles .or. heeded%subfiles > 0
        end do
        if (choice%settings%access%is_nonblocking .and. .not. posts) call error%set(exit_usage, &
            '', '', '--nonblocking needs a backend that has nonblocking transfers')
        if (choice%settings%access%subfiles > 0 .and. .not. makes_subfiles) call error%set( &
            exit_usage, '', '', '--subfiles needs a backend that makes subfiles')
    end subroutine choose_backends

    !> Constructs a backend by its name; it is not allocated if this build lacks it.
    function new_backend(name) result(item)
        character(*), intent(in) :: name
        type(backend_item) :: item

        select case (name)
        case ('mpiio')
            allocate (mpiio_backend :: item%method)
        case ('posix')
            allocate (posix_backend :: item%method)
#ifdef BENCHIO_HDF5
        case ('hdf5')
            call start_hdf5()
            allocate (hdf5_backend :: item%method)
#endif
#ifdef BENCHIO_NETCDF
        case ('netcdf')
#ifdef BENCHIO_HDF5
            call start_hdf5()       ! which says where NetCDF's bytes are
#endif
            allocate (netcdf_backend :: item%method)
#endif
#ifdef BENCHIO_PNETCDF
        case ('pnetcdf')
            allocate (pnetcdf_backend :: item%method)
#endif
#ifdef BENCHIO_ADIOS2
        case ('adios2')
            call start_adios2()
            allocate (adios2_backend :: item%method)
#endif
        case default        ! not in this build
        end select
        if (.not. allocated(item%method)) return
        item%method%name = name
        item%method%extension = trim(extensions(findloc(backend_names, name, 1)))
    end function new_backend

    !> Asks each library for its version at run time, once: a report may be due while one is busy in
    !> another thread.
    subroutine learn_versions()
        type(backend_item) :: item
        integer :: i

        if (any(versions /= '')) return
        do i = 1, size(backend_names)
            item = new_backend(trim(backend_names(i)))
            if (allocated(item%method)) versions(i) = item%method%version()
        end do
    end subroutine learn_versions

end module benchio_registry
