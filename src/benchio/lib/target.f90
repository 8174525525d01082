!> The directory benchio writes to, looked at before anything is written.
module benchio_target
    use, intrinsic :: iso_fortran_env, only: int64
    use mpi_f08, only: MPI_Comm
    use benchio_failure, only: agree, exit_io, failure
    use benchio_filesystem, only: filesystem_name, magic_text, name_listed
    use benchio_posix, only: filesystem_facts, look_for, real_path
    use benchio_text, only: decimal
    implicit none (type, external)
    private

    public :: check_room, inspect_target, refuse_existing

    type, public :: target_directory
        character(:), allocatable :: path           !! absolute, without links
        character(:), allocatable :: filesystem     !! type by its name
        character(:), allocatable :: magic          !! the same as statfs says it
        integer(int64) :: free_bytes = 0            !! for this user, seen by this rank
    end type target_directory

    !> Room for a library's headers beside the data.
    integer(int64), parameter :: header_bytes = 2_int64**20

contains

    !> Collective: the directory must exist and be of an allowed type on every rank's own node,
    !> where a mount may be missing and the directory below it be another filesystem.
    subroutine inspect_target(directory, allowed, comm, place, error)
        character(*), intent(in) :: directory
        character(*), intent(in) :: allowed         !! comma list of filesystem names; empty: any
        type(MPI_Comm), intent(in) :: comm
        type(target_directory), intent(out) :: place
        type(failure), intent(inout) :: error

        character(:), allocatable :: message
        integer(int64) :: magic

        call real_path(directory, place%path, message)
        if (message /= '') then
            place%path = directory
            call error%set(exit_io, 'realpath', directory, message)
        end if
        magic = 0
        call filesystem_facts(directory, magic, place%free_bytes, message)
        if (message /= '') call error%set(exit_io, 'statfs', directory, message)
        place%filesystem = filesystem_name(magic)
        place%magic = magic_text(magic)
        if (allowed /= '' .and. .not. name_listed(place%filesystem, allowed)) then
            call error%set(exit_io, 'statfs', place%path, 'filesystem is '//place%filesystem// &
                ' ('//place%magic//'), not '//allowed)
        end if
        call agree(error, comm)
    end subroutine inspect_target

    !> Collective: this rank's file must not exist, and the bytes must fit.
    subroutine check_room(place, file, bytes, times, looks, comm, error)
        type(target_directory), intent(in) :: place
        character(*), intent(in) :: file            !! path
        integer(int64), intent(in) :: bytes         !! of all files of a backend
        integer, intent(in) :: times                !! backends whose files are there at one time
        logical, intent(in) :: looks                !! one rank of each file does
        type(MPI_Comm), intent(in) :: comm
        type(failure), intent(inout) :: error

        character(:), allocatable :: needed

        if (looks) then
            call refuse_existing(file, error)
            if (bytes > (place%free_bytes - header_bytes)/times) then   ! all may be above 2^63
                needed = 'more than 2^63 - 1'
                if (bytes <= (huge(bytes) - header_bytes)/times) needed = decimal(bytes*times &
                    + header_bytes)
                call error%set(exit_io, 'statfs', place%path, needed//' bytes needed, ' &
                    //decimal(place%free_bytes)//' free')
            end if
        end if
        call agree(error, comm)
    end subroutine check_room

    !> A file that is there is not ours, and a link even to nothing is none that we may remove.
    subroutine refuse_existing(file, error)
        character(*), intent(in) :: file            !! path
        type(failure), intent(inout) :: error

        character(:), allocatable :: message
        logical :: exists

        call look_for(file, exists, message)
        if (exists) message = 'exists already; benchio overwrites nothing'
        if (message /= '') call error%set(exit_io, 'lstat', file, message)
    end subroutine refuse_existing

end module benchio_target
