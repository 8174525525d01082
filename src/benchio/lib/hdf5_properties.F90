!> Properties of HDF5's files and transfers: what benchio asks for, and what the library repeats.
module benchio_hdf5_properties
    use, intrinsic :: iso_c_binding, only: c_int, c_int32_t
    use hdf5, only: h5f_libver_earliest_f, h5f_libver_latest_f, h5fd_mpio_collective_f, &
        h5fd_mpio_independent_f, h5get_libversion_f, h5open_f, h5p_dataset_xfer_f, &
        h5p_file_access_f, h5pcreate_f, h5pget_mpio_actual_io_mode_f, h5pset_alignment_f, &
        h5pset_dxpl_mpio_f, h5pset_fapl_mpio_f, h5pset_libver_bounds_f, hid_t, hsize_t
#ifdef BENCHIO_HDF5_COLLECTIVE_METADATA
    use hdf5, only: h5pget_all_coll_metadata_ops_f, h5pget_coll_metadata_write_f, &
        h5pset_all_coll_metadata_ops_f, h5pset_coll_metadata_write_f
#endif
#ifdef BENCHIO_HDF5_SUBFILING
    use hdf5, only: h5fd_subfiling_config_t, h5pclose_f, h5pget_fapl_subfiling_f, &
        h5pset_fapl_subfiling_f, h5pset_mpi_params_f
#endif
    use mpi_f08, only: MPI_Comm, MPI_Info, MPI_Info_free, MPI_INFO_NULL, operator(/=)
    use benchio_failure, only: failure
    use benchio_hdf5_error, only: c_hid_t, check_hdf5
    use benchio_settings, only: info_of, io_settings
    implicit none (type, external)
    private

    public :: can_compress, echoed_collective_metadata, hdf5_version, kind_of_last_transfer, &
        new_access, new_transfer

    !> Whether the library was built to cut files into subfiles.
#ifdef BENCHIO_HDF5_SUBFILING
    logical, parameter, public :: can_subfile = .true.
#else
    logical, parameter, public :: can_subfile = .false.
#endif

    interface
        integer(c_int) function h5pget_no_collective_cause(transfer, local, global) &
            bind(C, name='H5Pget_mpio_no_collective_cause')
            import :: c_hid_t, c_int, c_int32_t
            integer(c_hid_t), value :: transfer
            integer(c_int32_t), intent(out) :: local, global    ! sets of bits
        end function h5pget_no_collective_cause
    end interface

contains

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
    !> lower one is not the same in every version of HDF5.
    subroutine new_access(access, comm, settings, path, error)
        integer(hid_t), intent(out) :: access
        type(MPI_Comm), intent(in) :: comm
        type(io_settings), intent(in) :: settings
        character(*), intent(in) :: path
        type(failure), intent(inout) :: error

        type(MPI_Info) :: info
        integer(hsize_t), parameter :: every_object = 1
        integer :: code

        call h5pcreate_f(h5p_file_access_f, access, code)
        call check_hdf5(error, code, 'H5Pcreate', path)
        info = info_of(settings)
        if (settings%access%subfiles > 0) then
            call set_subfiling(access, comm, info, settings%access%subfiles, path, error)
        else
            call h5pset_fapl_mpio_f(access, comm%mpi_val, info%mpi_val, code)
            call check_hdf5(error, code, 'H5Pset_fapl_mpio', path)
        end if
        if (info /= MPI_INFO_NULL) call MPI_Info_free(info)
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

    !> Collective or independent transfers of datasets.
    subroutine new_transfer(transfer, settings, path, error)
        integer(hid_t), intent(out) :: transfer
        type(io_settings), intent(in) :: settings
        character(*), intent(in) :: path
        type(failure), intent(inout) :: error

        integer :: code

        call h5pcreate_f(h5p_dataset_xfer_f, transfer, code)
        call check_hdf5(error, code, 'H5Pcreate', path)
        call h5pset_dxpl_mpio_f(transfer, merge(h5fd_mpio_collective_f, h5fd_mpio_independent_f, &
            settings%collective), code)
        call check_hdf5(error, code, 'H5Pset_dxpl_mpio', path)
    end subroutine new_transfer

    !> HDF5's word on whether the last transfer was collective, and if not why: it falls back
    !> silently. Empty if it does not say.
    function kind_of_last_transfer(transfer) result(text)
        integer(hid_t), intent(in) :: transfer
        character(:), allocatable :: text

        character(24), parameter :: causes(0:5) = [character(24) :: 'independent requested', &
            'datatype conversion', 'data transform', 'MPI types disabled', 'dataspace', &
            'dataset layout']
        integer(c_int32_t) :: local, global
        integer :: code, mode, i

        text = ''
        call h5pget_mpio_actual_io_mode_f(transfer, mode, code)
        if (code < 0) return
        select case (mode)          ! H5D_mpio_actual_io_mode_t
        case (2, 4)
            text = 'collective'
            return
        case (3)
            text = 'mixed'
        case default
            text = 'independent'
        end select
        if (h5pget_no_collective_cause(transfer, local, global) < 0) return
        do i = 0, ubound(causes, 1)
            if (btest(global, i)) text = text//', '//trim(causes(i))
        end do
    end function kind_of_last_transfer

end module benchio_hdf5_properties
