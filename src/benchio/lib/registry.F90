!> The backends this build has. A new backend is one file plus its lines here.
module benchio_registry
    use mpi_f08, only: MPI_Get_library_version, MPI_MAX_LIBRARY_VERSION_STRING
    use benchio_access, only: access_pattern
    use benchio_backend, only: backend
    use benchio_mpiio_backend, only: mpiio_backend
    use benchio_posix_backend, only: posix_backend
    use benchio_raw_file, only: kernel_version
    use benchio_text, only: one_line
#ifdef BENCHIO_HDF5
    use benchio_hdf5_backend, only: hdf5_backend, start_hdf5
    use benchio_hdf5_properties, only: can_compress, can_subfile, hdf5_version
#endif
#ifdef BENCHIO_NETCDF
    use benchio_netcdf_backend, only: can_quantize, netcdf_backend, netcdf_version
#endif
#ifdef BENCHIO_PNETCDF
    use benchio_pnetcdf_backend, only: pnetcdf_backend, pnetcdf_version
#endif
    implicit none (type, external)
    private

    public :: built_in, has_subfiling, lacks, library_version, new_backend

    character(*), parameter, public :: backend_names(5) = [character(7) :: &
        'mpiio', 'hdf5', 'netcdf', 'pnetcdf', 'posix']

    !> One backend of a list.
    type, public :: backend_item
        class(backend), allocatable :: method
    end type backend_item

contains

    !> A backend by its name; not allocated if this build lacks it.
    function new_backend(name) result(item)
        character(*), intent(in) :: name
        type(backend_item) :: item

        select case (name)
        case ('mpiio')
            allocate (mpiio_backend :: item%method)
            item%method%extension = 'dat'
        case ('posix')
            allocate (posix_backend :: item%method)
            item%method%extension = 'dat'
#ifdef BENCHIO_HDF5
        case ('hdf5')
            call start_hdf5()
            allocate (hdf5_backend :: item%method)
            item%method%extension = 'h5'
#endif
#ifdef BENCHIO_NETCDF
        case ('netcdf')
#ifdef BENCHIO_HDF5
            call start_hdf5()       ! which says where in the file NetCDF's bytes are
#endif
            allocate (netcdf_backend :: item%method)
            item%method%extension = 'nc'
#endif
#ifdef BENCHIO_PNETCDF
        case ('pnetcdf')
            allocate (pnetcdf_backend :: item%method)
            item%method%extension = 'nc'
#endif
        case default
            return
        end select
        item%method%name = name
        ! Also of a rank that opens no file.
        allocate (item%method%echoed_hints(0))
        item%method%echoed_collective_metadata = ''
        item%method%observed_collective = ''
    end function new_backend

    logical function built_in(name)
        character(*), intent(in) :: name

        built_in = library_version(name) /= ''
    end function built_in

    !> Why the version of a backend's library cannot write so; empty if it can.
    function lacks(name, access) result(text)
        character(*), intent(in) :: name
        type(access_pattern), intent(in) :: access
        character(:), allocatable :: text

        text = ''
#ifdef BENCHIO_HDF5
        if (name == 'hdf5' .and. access%subfiles > 0 .and. .not. can_subfile) then
            text = 'HDF5 '//hdf5_version()//' was built without subfiling: benchio needs one of ' &
                //'1.14 or later with HDF5_ENABLE_SUBFILING_VFD (Spack: hdf5+subfiling)'
        else if (name == 'hdf5' .and. access%deflate > 0) then
            if (.not. can_compress()) text = 'HDF5 '//hdf5_version() &
                //' does not compress in parallel: 1.10.2 and later do'
        end if
#endif
#ifdef BENCHIO_NETCDF
        if (name == 'netcdf' .and. access%quantize > 0) then
            if (.not. can_quantize()) text = 'NetCDF '//netcdf_version() &
                //' does not quantize: NetCDF-C 4.9 and later do'
        end if
#endif
        associate (unused => name, as_unused => access)
        end associate
    end function lacks

    !> Whether HDF5 was built to make subfiles, if it is there at all.
    logical function has_subfiling()
#ifdef BENCHIO_HDF5
        has_subfiling = can_subfile
#else
        has_subfiling = .false.
#endif
    end function has_subfiling

    !> What a backend's library says of its version at run time; empty if not built in.
    function library_version(name) result(text)
        character(*), intent(in) :: name
        character(:), allocatable :: text

        character(MPI_MAX_LIBRARY_VERSION_STRING) :: buffer
        integer :: length

        text = ''
        select case (name)
        case ('mpiio')
            call MPI_Get_library_version(buffer, length)
            text = one_line(buffer(:length))
        case ('posix')
            text = kernel_version()
#ifdef BENCHIO_HDF5
        case ('hdf5')
            text = hdf5_version()
#endif
#ifdef BENCHIO_NETCDF
        case ('netcdf')
            text = netcdf_version()
#endif
#ifdef BENCHIO_PNETCDF
        case ('pnetcdf')
            text = pnetcdf_version()
#endif
        case default
            return
        end select
    end function library_version

end module benchio_registry
