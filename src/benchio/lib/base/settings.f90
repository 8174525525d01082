!> How the libraries are asked to work.
module benchio_settings
    use, intrinsic :: iso_fortran_env, only: int64
    use mpi_f08, only: MPI_Info, MPI_Info_create, MPI_Info_get, MPI_Info_get_nkeys, &
        MPI_Info_get_nthkey, MPI_INFO_NULL, MPI_Info_set, MPI_MAX_INFO_KEY
    use benchio_access, only: access_pattern
    implicit none (type, external)
    private

    public :: info_of, list_hints

    !> An MPI-IO hint.
    type, public :: hint
        character(:), allocatable :: key, value
    end type hint

    type, public :: io_settings
        logical :: collective = .true.              !! collective data transfer
        type(hint), allocatable :: hints(:)         !! for MPI_File_open
        integer(int64) :: alignment = 1             !! of HDF5 and PnetCDF objects, in bytes
        integer(int64) :: chunk(3) = 0              !! extents of HDF5/NetCDF chunks; 0: contiguous
        logical :: collective_metadata = .true.     !! HDF5: one rank reads and writes metadata
        logical :: latest_format = .false.          !! HDF5: newest file format
        integer(int64) :: transfer_bytes = 2_int64**30  !! at most, in one call of the library
        logical :: flush = .false.                  !! the library's own flush before the close
        logical :: direct = .false.                 !! posix: O_DIRECT, past the page cache
        logical :: outlives_failures = .false.      !! the run goes on after a write that failed
        logical :: has_no_array = .false.           !! files of another kind, or names alone
        type(access_pattern) :: access
    end type io_settings

contains

    !> Returns the hints as MPI wants them, MPI_INFO_NULL if there are none; the caller frees them.
    function info_of(settings) result(info)
        type(io_settings), intent(in) :: settings
        type(MPI_Info) :: info

        integer :: i

        info = MPI_INFO_NULL
        if (.not. allocated(settings%hints)) return
        if (size(settings%hints) == 0) return
        call MPI_Info_create(info)
        do i = 1, size(settings%hints)
            call MPI_Info_set(info, settings%hints(i)%key, settings%hints(i)%value)
        end do
    end function info_of

    !> Lists all hints of an info object.
    subroutine list_hints(info, list)
        type(MPI_Info), intent(in) :: info
        type(hint), allocatable, intent(out) :: list(:)

        character(MPI_MAX_INFO_KEY) :: key
        character(1024) :: value
        integer :: keys, i
        logical :: is_set

        call MPI_Info_get_nkeys(info, keys)
        allocate (list(keys))
        do i = 1, keys
            call MPI_Info_get_nthkey(info, i - 1, key)
            call MPI_Info_get(info, trim(key), len(value), value, is_set)
            list(i)%key = trim(key)
            list(i)%value = trim(value)
        end do
    end subroutine list_hints

end module benchio_settings
