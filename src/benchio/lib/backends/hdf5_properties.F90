!> Properties of HDF5's files, asked for and repeated by the library; and the innermost message on
!> its error stack, which its Fortran interface does not give.
module benchio_hdf5_properties
    use, intrinsic :: iso_c_binding, only: c_associated, c_char, c_f_pointer, c_funloc, c_funptr, &
        c_int, c_int32_t, c_int64_t, c_loc, c_null_char, c_ptr
    use hdf5, only: h5f_libver_earliest_f, h5f_libver_latest_f, h5get_libversion_f, h5open_f, &
        h5p_file_access_f, h5pclose_f, h5pcreate_f, h5pset_alignment_f, h5pset_fapl_mpio_f, &
        h5pset_libver_bounds_f, hid_t, hsize_t
#ifdef BENCHIO_HDF5_COLLECTIVE_METADATA
    use hdf5, only: h5pget_all_coll_metadata_ops_f, h5pget_coll_metadata_write_f, &
        h5pset_all_coll_metadata_ops_f, h5pset_coll_metadata_write_f
#endif
#ifdef BENCHIO_HDF5_SUBFILING
    use hdf5, only: h5fd_subfiling_config_t, h5pget_fapl_subfiling_f, &
        h5pset_fapl_subfiling_f, h5pset_mpi_params_f
#endif
    use mpi_f08, only: MPI_Comm, MPI_Info, MPI_Info_free, MPI_INFO_NULL, operator(/=)
    use benchio_failure, only: agree, exit_io, failure
    use benchio_settings, only: info_of, io_settings
    implicit none (type, external)
    private

    public :: can_compress, check_hdf5, echoed_collective_metadata, hdf5_version, new_access

    !> Whether the library was built to cut files into subfiles.
#ifdef BENCHIO_HDF5_SUBFILING
    logical, parameter, public :: can_subfile = .true.
#else
    logical, parameter, public :: can_subfile = .false.
#endif

    !> An hid_t as C knows it: it has 32 bits in HDF5 1.8 and 64 bits since 1.10.
    integer, parameter, public :: c_hid_t = merge(c_int, c_int64_t, hid_t == c_int)

    integer(c_hid_t), parameter :: default_stack = 0    ! H5E_DEFAULT
    integer(c_int), parameter :: innermost_first = 0      ! H5E_WALK_UPWARD
    integer, parameter :: text_size = 1024

    !> H5E_error2_t.
    type, bind(C) :: error_record
        integer(c_hid_t) :: class_id, major, minor
        integer(c_int) :: line
        type(c_ptr) :: function_name, file_name, description
    end type error_record

    interface
        integer(c_int) function h5ewalk(stack, direction, visit, data) bind(C, name='H5Ewalk2')
            import :: c_funptr, c_hid_t, c_int, c_ptr
            integer(c_hid_t), value :: stack
            integer(c_int), value :: direction
            type(c_funptr), value :: visit
            type(c_ptr), value :: data
        end function h5ewalk
    end interface

contains

    !> Records an unsuccessful return code of an HDF5 call.
    subroutine check_hdf5(error, code, call, path)
        type(failure), intent(inout) :: error
        integer, intent(in) :: code
        character(*), intent(in) :: call, path

        character(text_size), target :: text
        integer(c_int) :: ignored

        if (code >= 0) return
        text = ''
        ignored = h5ewalk(default_stack, innermost_first, c_funloc(visit), c_loc(text(:1)))
        if (text == '') text = 'failed without a message'
        call error%set(exit_io, call, path, trim(text))
    end subroutine check_hdf5

    !> Keeps the last two descriptions HDF5 walks over first: the innermost one and its reason.
    integer(c_int) function visit(depth, record, data) bind(C, name='benchio_visit_hdf5_error')
        integer(c_int), value :: depth
        type(error_record), intent(in) :: record
        type(c_ptr), value :: data

        character(kind=c_char), pointer :: letters(:), text(:)
        integer :: i, start

        visit = 0
        if (depth > 1 .or. .not. c_associated(record%description)) return
        call c_f_pointer(data, text, [text_size])
        call c_f_pointer(record%description, letters, [text_size])
        start = findloc(text /= ' ', .true., 1, back=.true.)
        if (start > 0) then
            text(start + 1:start + 1) = ';'
            start = start + 2
        end if
        do i = 1, text_size - start
            if (letters(i) == c_null_char) exit
            text(start + i) = letters(i)
        end do
    end function visit

    function hdf5_version() result(text)
        character(:), allocatable :: text

        integer :: major, minor, release, code
        character(32) :: buffer

        call h5open_f(code)
        call h5get_libversion_f(major, minor, release, code)
        write (buffer, '(i0,2(".",i0))') major, minor, release
        text = trim(buffer)
    end function hdf5_version

    !> Says whether several ranks can write a dataset that is compressed.
    logical function can_compress()
        integer :: code, major, minor, release

        call h5open_f(code)
        call h5get_libversion_f(major, minor, release, code)
        can_compress = major > 1 .or. minor > 10 .or. (minor == 10 .and. release >= 2)
    end function can_compress

    !> File access through MPI-IO. Both bounds of the file format are set, since the default of the
    !> lower one is not the same in every version of HDF5. There is none after a failure, on which
    !> all ranks agree: one whose properties are of another kind would open the file by itself, and
    !> the others wait for it. Collective.
    subroutine new_access(access, comm, settings, path, error)
        integer(hid_t), intent(out) :: access
        type(MPI_Comm), intent(in) :: comm
        type(io_settings), intent(in) :: settings
        character(*), intent(in) :: path
        type(failure), intent(inout) :: error

        type(MPI_Info) :: info
        integer(hsize_t), parameter :: every_object = 1
        integer :: code, ignored

        call h5pcreate_f(h5p_file_access_f, access, code)
        call check_hdf5(error, code, 'H5Pcreate', path)
#ifdef BENCHIO_HDF5_COLLECTIVE_METADATA
        call h5pset_coll_metadata_write_f(access, settings%collective_metadata, code)
        call check_hdf5(error, code, 'H5Pset_coll_metadata_write', path)
        call h5pset_all_coll_metadata_ops_f(access, settings%collective_metadata, code)
        call check_hdf5(error, code, 'H5Pset_all_coll_metadata_ops', path)
#endif
        call h5pset_alignment_f(access, every_object, int(settings%alignment, hsize_t), code)
        call check_hdf5(error, code, 'H5Pset_alignment', path)
        call h5pset_libver_bounds_f(access, merge(h5f_libver_latest_f, h5f_libver_earliest_f, &
            settings%latest_format), h5f_libver_latest_f, code)
        call check_hdf5(error, code, 'H5Pset_libver_bounds', path)
        call agree(error, comm)         ! what follows is collective
        if (.not. error%failed()) then
            info = info_of(settings)
            if (settings%access%subfiles > 0) then
                call set_subfiling(access, comm, info, settings%access%subfiles, path, error)
            else
                call h5pset_fapl_mpio_f(access, comm%mpi_val, info%mpi_val, code)
                call check_hdf5(error, code, 'H5Pset_fapl_mpio', path)
            end if
            if (info /= MPI_INFO_NULL) call MPI_Info_free(info)
            call agree(error, comm)
        end if
        if (error%failed()) call h5pclose_f(access, ignored)
    end subroutine new_access

    !> So many subfiles, and else what HDF5 does if it is not told: one rank of every node writes
    !> them for all.
    subroutine set_subfiling(access, comm, info, subfiles, path, error)
        integer(hid_t), intent(in) :: access
        type(MPI_Comm), intent(in) :: comm
        type(MPI_Info), intent(in) :: info
        integer, intent(in) :: subfiles
        character(*), intent(in) :: path
        type(failure), intent(inout) :: error

#ifdef BENCHIO_HDF5_SUBFILING
        type(h5fd_subfiling_config_t) :: config
        integer :: code, ignored

        call h5pset_mpi_params_f(access, comm%mpi_val, info%mpi_val, code)
        call check_hdf5(error, code, 'H5Pset_mpi_params', path)
        call h5pget_fapl_subfiling_f(access, config, code)
        call check_hdf5(error, code, 'H5Pget_fapl_subfiling', path)
        if (error%failed()) return
        config%shared_cfg%stripe_count = int(subfiles, c_int32_t)
        call h5pset_fapl_subfiling_f(access, code, config)
        call check_hdf5(error, code, 'H5Pset_fapl_subfiling', path)
        call h5pclose_f(config%ioc_fapl_id, ignored)
#endif
    end subroutine set_subfiling

    !> Repeats whether HDF5 reads and writes metadata collectively, for the access properties
    !> of an open file or of one to be opened.
    function echoed_collective_metadata(access) result(text)
        integer(hid_t), intent(in) :: access
        character(:), allocatable :: text

#ifdef BENCHIO_HDF5_COLLECTIVE_METADATA
        logical :: reads, writes
        integer :: reads_code, writes_code

        call h5pget_all_coll_metadata_ops_f(access, reads, reads_code)
        call h5pget_coll_metadata_write_f(access, writes, writes_code)
        if (min(reads_code, writes_code) < 0) then
            text = ''
        else if (reads .eqv. writes) then
            text = trim(merge('yes', 'no ', reads))
        else
            text = trim(merge('only reads ', 'only writes', reads))
        end if
#else
        text = 'not supported by HDF5 '//hdf5_version()
#endif
    end function echoed_collective_metadata

end module benchio_hdf5_properties
