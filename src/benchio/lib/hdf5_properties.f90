!> What HDF5 is asked for, file by file and transfer by transfer, and what it says it did.
module benchio_hdf5_properties
    use, intrinsic :: iso_c_binding, only: c_int, c_int32_t, c_int64_t
    use hdf5, only: h5f_libver_latest_f, h5fd_mpio_collective_f, h5fd_mpio_independent_f, &
        h5p_dataset_xfer_f, h5p_file_access_f, h5pcreate_f, h5pget_mpio_actual_io_mode_f, &
        h5pset_alignment_f, h5pset_all_coll_metadata_ops_f, h5pset_coll_metadata_write_f, &
        h5pset_dxpl_mpio_f, h5pset_fapl_mpio_f, h5pset_libver_bounds_f, hid_t, hsize_t
    use mpi_f08, only: MPI_Comm, MPI_Info, MPI_Info_free, MPI_INFO_NULL, operator(/=)
    use benchio_failure, only: failure
    use benchio_hdf5_error, only: check_hdf5
    use benchio_settings, only: info_of, io_settings
    implicit none (type, external)
    private

    public :: kind_of_transfer, new_access, new_transfer

    interface
        integer(c_int) function h5pget_no_collective_cause(transfer, local, global) &
            bind(C, name='H5Pget_mpio_no_collective_cause')
            import :: c_int, c_int32_t, c_int64_t
            integer(c_int64_t), value :: transfer
            integer(c_int32_t), intent(out) :: local, global    ! sets of bits
        end function h5pget_no_collective_cause
    end interface

contains

    !> File access through MPI-IO.
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
        call h5pset_fapl_mpio_f(access, comm%mpi_val, info%mpi_val, code)
        call check_hdf5(error, code, 'H5Pset_fapl_mpio', path)
        if (info /= MPI_INFO_NULL) call MPI_Info_free(info)
        call h5pset_coll_metadata_write_f(access, settings%collective_metadata, code)
        call check_hdf5(error, code, 'H5Pset_coll_metadata_write', path)
        call h5pset_all_coll_metadata_ops_f(access, settings%collective_metadata, code)
        call check_hdf5(error, code, 'H5Pset_all_coll_metadata_ops', path)
        call h5pset_alignment_f(access, every_object, int(settings%alignment, hsize_t), code)
        call check_hdf5(error, code, 'H5Pset_alignment', path)
        if (settings%latest_format) then
            call h5pset_libver_bounds_f(access, h5f_libver_latest_f, h5f_libver_latest_f, code)
            call check_hdf5(error, code, 'H5Pset_libver_bounds', path)
        end if
    end subroutine new_access

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
    function kind_of_transfer(transfer) result(text)
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
        if (h5pget_no_collective_cause(int(transfer, c_int64_t), local, global) < 0) return
        do i = 0, ubound(causes, 1)
            if (btest(global, i)) text = text//', '//trim(causes(i))
        end do
    end function kind_of_transfer

end module benchio_hdf5_properties
