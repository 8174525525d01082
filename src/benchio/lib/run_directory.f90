!> The directory a run is given, and the one it makes in it for its files.
!>
!> All files are in a directory of the run's own, so that stripes are set on nothing of the user's
!> and no file of another run or another program is ever met.
module benchio_run_directory
    use, intrinsic :: iso_fortran_env, only: int64
    use mpi_f08, only: MPI_Allreduce, MPI_Bcast, MPI_CHARACTER, MPI_Comm, MPI_Comm_rank, &
        MPI_LOGICAL, MPI_LOR
    use benchio_failure, only: agree, exit_internal, exit_io, failure
    use benchio_filesystem, only: filesystem_name, magic_text, name_listed
    use benchio_posix, only: filesystem_facts, first_entry, look_for, make_directory, &
        random_digits, real_path, remove_directory
    use benchio_striping, only: set_striping, striping
    use benchio_text, only: decimal
    implicit none (type, external)
    private

    public :: check_room, choose_run_id, inspect_target, make_run_directory, remove_run_directory

    type, public :: target_directory
        character(:), allocatable :: path           !! absolute, without links
        character(:), allocatable :: filesystem     !! type by its name
        character(:), allocatable :: magic          !! the same as statfs says it
        integer(int64) :: free_bytes = 0            !! for this user, seen by this rank
        character(:), allocatable :: run_path       !! the run's own directory; empty: none is made
        logical :: is_made_here = .false.           !! this rank has made it
        logical :: is_node_local = .false.          !! each node has one of its own
    contains
        procedure :: path_of
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

        place%run_path = ''
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

    !> Collective: the files that are there at one time must fit.
    subroutine check_room(place, bytes, times, comm, error)
        type(target_directory), intent(in) :: place
        integer(int64), intent(in) :: bytes         !! of all files of a backend
        integer, intent(in) :: times                !! backends whose files are there at one time
        type(MPI_Comm), intent(in) :: comm
        type(failure), intent(inout) :: error

        character(:), allocatable :: needed

        if (bytes > (place%free_bytes - header_bytes)/times) then   ! all may be above 2^63
            needed = 'more than 2^63 - 1'
            if (bytes <= (huge(bytes) - header_bytes)/times) needed = decimal(bytes*times &
                + header_bytes)
            call error%set(exit_io, 'statfs', place%path, needed//' bytes needed, ' &
                //decimal(place%free_bytes)//' free')
        end if
        call agree(error, comm)
    end subroutine check_room

    !> Collective: the id that was asked for, or 16 random hexadecimal digits, alike on all ranks.
    subroutine choose_run_id(wanted, comm, run_id, error)
        character(*), intent(in) :: wanted          !! empty: a random one
        type(MPI_Comm), intent(in) :: comm
        character(:), allocatable, intent(out) :: run_id
        type(failure), intent(inout) :: error

        character(16) :: digits
        character(:), allocatable :: message
        integer :: rank

        run_id = wanted
        if (wanted /= '') return
        call MPI_Comm_rank(comm, rank)
        digits = ''
        if (rank == 0) then
            call random_digits(digits, message)
            if (message /= '') call error%set(exit_internal, 'read', '/dev/urandom', message)
        end if
        call MPI_Bcast(digits, len(digits), MPI_CHARACTER, 0, comm)
        call agree(error, comm)
        run_id = digits
    end subroutine choose_run_id

    !> Collective: rank 0 makes DIR/benchio.RUNID, which must not exist, and sets the stripes on it,
    !> once. Where nodes do not see it, DIR is on storage of their own, and each makes one. After a
    !> failure there is none.
    subroutine make_run_directory(place, run_id, stripes, is_first_on_node, comm, error)
        type(target_directory), intent(inout) :: place
        character(*), intent(in) :: run_id
        type(striping), intent(in) :: stripes
        logical, intent(in) :: is_first_on_node
        type(MPI_Comm), intent(in) :: comm
        type(failure), intent(inout) :: error

        character(:), allocatable :: ignored, message
        integer :: rank
        logical :: exists

        place%run_path = place%path//'/benchio.'//run_id
        call MPI_Comm_rank(comm, rank)
        if (rank == 0) then
            call make_directory(place%run_path, message)
            place%is_made_here = message == ''
            if (place%is_made_here) then
                call set_striping(place%run_path, stripes, place%filesystem, error)
            else
                call look_for(place%run_path, exists, ignored)
                if (exists) message = 'exists already: another run has or had this --run-id'
                call error%set(exit_io, 'mkdir', place%run_path, message)
            end if
        end if
        call agree(error, comm)
        if (rank > 0 .and. is_first_on_node .and. .not. error%failed()) then
            call look_for(place%run_path, exists, message)
            if (message == '' .and. .not. exists) then
                call make_directory(place%run_path, message)
                place%is_made_here = message == ''
            end if
            if (message /= '') call error%set(exit_io, 'mkdir', place%run_path, message)
        end if
        call agree(error, comm)
        call MPI_Allreduce(place%is_made_here .and. rank > 0, place%is_node_local, 1, MPI_LOGICAL, &
            MPI_LOR, comm)
        if (.not. error%failed()) return
        if (place%is_made_here) call remove_directory(place%run_path, ignored)
        place%run_path = ''
    end subroutine make_run_directory

    !> After all files were removed, on a rank that has made the directory. The text is empty, or
    !> says why it failed: a file that is left, of a library or of somebody else, is named.
    subroutine remove_run_directory(place, text)
        type(target_directory), intent(in) :: place
        character(:), allocatable, intent(out) :: text

        character(:), allocatable :: left

        call remove_directory(place%run_path, text)
        if (text == '') return
        left = first_entry(place%run_path)
        if (left /= '') text = 'not empty: '//left//' is left'
    end subroutine remove_run_directory

    !> A file in the run's directory, numbered if there are several.
    pure function path_of(self, backend, extension, file, files) result(path)
        class(target_directory), intent(in) :: self
        character(*), intent(in) :: backend         !! its name
        character(*), intent(in) :: extension       !! of its files, without the dot
        integer, intent(in) :: file                 !! from 0
        integer, intent(in) :: files                !! how many there are
        character(:), allocatable :: path

        character(8) :: number

        number = ''
        if (files > 1) write (number, '(".",i6.6)') file
        path = self%run_path//'/'//backend//trim(number)//'.'//extension
    end function path_of

end module benchio_run_directory
