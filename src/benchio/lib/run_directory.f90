!> The directory that a run is given, and the directory that it makes in there for its files.
!>
!> All files are in the run's directory: a layout is set on nothing of the user's, and the run meets
!> no file of another program. If storage targets are measured one by one, each has a directory in
!> it.
module benchio_run_directory
    use, intrinsic :: iso_fortran_env, only: int64
    use mpi_f08, only: MPI_Allreduce, MPI_Bcast, MPI_CHARACTER, MPI_Comm, MPI_Comm_rank, &
        MPI_LOGICAL, MPI_LOR
    use benchio_failure, only: agree, exit_internal, exit_io, failure
    use benchio_file_layout, only: component, layout_keeper, layout_request
    use benchio_filesystem, only: filesystem_name, magic_text, name_listed
    use benchio_other_layouts, only: choose_layout_keeper
    use benchio_posix, only: attempt, filesystem_facts, first_entry, make_directory, &
        mounted_filesystem, path_exists, random_digits, real_path, remove_directory
    use benchio_text, only: decimal
    implicit none (type, external)
    private

    public :: check_room, choose_run_id, inspect_place, make_run_directory, place_targets
    public :: remove_run_directory

    !> A directory for files of one layout: the run's, or one of several in it.
    type, public :: target_directory
        character(:), allocatable :: name           !! of the storage target; empty: all of them
        character(:), allocatable :: path
        type(layout_request) :: request
        type(component) :: echoed                   !! the layout that it repeats, on rank 0
        logical :: is_echoed = .false.
        type(failure) :: error                      !! why no round goes to it any more
    end type target_directory

    type, public :: run_place
        type(MPI_Comm) :: comm                      !! all ranks
        integer :: rank = 0
        character(:), allocatable :: path           !! absolute, without links
        character(:), allocatable :: filesystem     !! type by its name
        character(:), allocatable :: magic          !! the same as statfs says it
        type(mounted_filesystem) :: mounted         !! seen by this rank
        class(layout_keeper), allocatable :: keeper
        character(:), allocatable :: run_path       !! the run's directory; empty: none is made
        type(target_directory), allocatable :: targets(:)   !! at least one
        integer :: mdt_index = -1                   !! Lustre's metadata target, on rank 0; or < 0
        logical :: is_made_here = .false.           !! this rank has made it
        logical :: is_node_local = .false.          !! each node has another
    contains
        procedure :: directories
        procedure :: path_of
    end type run_place

    !> Room for a library's headers beside the data.
    integer(int64), parameter :: header_bytes = 2_int64**20

    !> Characters of a path. Linux takes 4095; the rest is for the longest names of a run, a target
    !> and a file, and for what a library appends.
    integer, parameter :: longest_path = 3840

contains

    !> Checks that the directory exists, has an allowed type and can do what is asked for.
    !> Collective. Every rank looks: on its node a mount may be missing, and the directory below it
    !> be another filesystem.
    subroutine inspect_place(directory, allowed, requests, mdt_index, comm, place, error)
        character(*), intent(in) :: directory
        character(*), intent(in) :: allowed         !! comma list of filesystem names; empty: any
        type(layout_request), intent(in) :: requests(:)     !! one, or one of each target
        integer, intent(in) :: mdt_index            !! less than 0: none is asked for
        type(MPI_Comm), intent(in) :: comm
        type(run_place), intent(out) :: place
        type(failure), intent(inout) :: error

        character(:), allocatable :: message
        integer :: i

        place%comm = comm
        call MPI_Comm_rank(comm, place%rank)
        place%run_path = ''
        call real_path(directory, place%path, message)
        if (message /= '') then
            place%path = directory
            call error%set(exit_io, 'realpath', directory, message)
        else if (len(place%path) > longest_path) then
            call error%set(exit_io, 'realpath', place%path, 'the path has ' &
                //decimal(len(place%path))//' characters, and more than ' &
                //decimal(longest_path)//' leave no room for the names of files')
        end if
        call filesystem_facts(place%path, place%mounted, message)
        if (message /= '') call error%set(exit_io, 'statfs', directory, message)
        place%filesystem = filesystem_name(place%mounted%magic)
        if (place%filesystem == 'unknown' .and. place%mounted%type /= '') then
            place%filesystem = place%mounted%type
        end if
        place%magic = magic_text(place%mounted%magic)
        if (allowed /= '' .and. .not. name_listed(place%filesystem, allowed)) then
            call error%set(exit_io, 'statfs', place%path, 'filesystem is '//place%filesystem// &
                ' ('//place%magic//'), not '//allowed)
        end if
        call choose_layout_keeper(place%filesystem, place%mounted, place%keeper)
        allocate (place%targets(size(requests)))
        do i = 1, size(requests)
            place%targets(i)%name = trim(requests(i)%target)
            place%targets(i)%request = requests(i)
            message = place%keeper%refusal(requests(i), mdt_index)
            if (message /= '') call error%set(exit_io, 'layout', place%path, message)
        end do
        call agree(error, comm)
    end subroutine inspect_place

    !> Checks that the files fit which are there at one time. Collective.
    subroutine check_room(place, bytes, times, error)
        type(run_place), intent(in) :: place
        integer(int64), intent(in) :: bytes         !! of all files of a backend
        integer, intent(in) :: times                !! backends whose files are there at one time
        type(failure), intent(inout) :: error

        character(:), allocatable :: needed

        if (bytes > (place%mounted%free_bytes - header_bytes)/times) then   ! all may be above 2^63
            needed = 'more than 2^63 - 1'
            if (bytes <= (huge(bytes) - header_bytes)/times) needed = decimal(bytes*times &
                + header_bytes)
            call error%set(exit_io, 'statfs', place%path, needed//' bytes needed, ' &
                //decimal(place%mounted%free_bytes)//' free')
        end if
        call agree(error, place%comm)
    end subroutine check_room

    !> Returns the id that was asked for, or 16 random hexadecimal digits, alike on all ranks.
    !> Collective.
    subroutine choose_run_id(wanted, comm, run_id, error)
        character(*), intent(in) :: wanted          !! empty: a random one
        type(MPI_Comm), intent(in) :: comm
        character(:), allocatable, intent(out) :: run_id
        type(failure), intent(inout) :: error

        character(16) :: random
        character(:), allocatable :: message
        integer :: rank

        run_id = wanted
        if (wanted /= '') return
        call MPI_Comm_rank(comm, rank)
        random = ''
        if (rank == 0) then
            call random_digits(random, message)
            if (message /= '') call error%set(exit_internal, 'read', '/dev/urandom', message)
        end if
        call MPI_Bcast(random, len(random), MPI_CHARACTER, 0, comm)
        call agree(error, comm)
        run_id = random
    end subroutine choose_run_id

    !> Makes DIR/benchio.RUNID, which must not exist, on rank 0, and lays out its files. Collective.
    !>
    !> A node that does not see it has storage of its own at DIR, and makes another. After a failure
    !> there is none. A target among several that cannot be laid out fails alone.
    subroutine make_run_directory(place, run_id, mdt_index, is_first_on_node, error)
        type(run_place), intent(inout) :: place
        character(*), intent(in) :: run_id
        integer, intent(in) :: mdt_index            !! less than 0: none is asked for
        logical, intent(in) :: is_first_on_node
        type(failure), intent(inout) :: error

        character(:), allocatable :: ignored, message
        logical :: exists

        place%run_path = place%path//'/benchio.'//run_id
        call place_targets(place, place%run_path)
        if (place%rank == 0) then
            call place%keeper%make_run_directory(place%run_path, mdt_index, message)
            place%is_made_here = message == ''
            if (place%is_made_here) then
                place%mdt_index = place%keeper%mdt_index(place%run_path)
            else
                call path_exists(place%run_path, exists, ignored)
                if (exists) message = 'exists already: another run has or had this --run-id'
                call error%set(exit_io, 'mkdir', place%run_path, message)
            end if
        end if
        call agree(error, place%comm)
        if (.not. error%failed()) call lay_out_targets(place, error)
        if (place%rank > 0 .and. is_first_on_node .and. .not. error%failed()) then
            call path_exists(place%run_path, exists, message)
            if (message == '' .and. .not. exists) then
                call attempt(make_directory, place%run_path, message)
                place%is_made_here = message == ''
            end if
            if (message /= '') call error%set(exit_io, 'mkdir', place%run_path, message)
        end if
        call agree(error, place%comm)
        call MPI_Allreduce(place%is_made_here .and. place%rank > 0, place%is_node_local, 1, &
            MPI_LOGICAL, MPI_LOR, place%comm)
        if (.not. error%failed()) return
        if (place%is_made_here) call remove_run_directory(place, ignored)
        place%run_path = ''
    end subroutine make_run_directory

    !> Sets where the files of each target are in a run's directory, of this run or another.
    subroutine place_targets(place, run_path)
        type(run_place), intent(inout) :: place
        character(*), intent(in) :: run_path

        integer :: i

        do i = 1, size(place%targets)
            associate (target => place%targets(i))
                target%path = run_path
                if (target%name /= '') target%path = run_path//'/target.'//target%name
            end associate
        end do
    end subroutine place_targets

    !> Makes the directory of each target on rank 0, and lays out its files. Collective.
    subroutine lay_out_targets(place, error)
        type(run_place), intent(inout) :: place
        type(failure), intent(inout) :: error

        character(:), allocatable :: message
        integer :: i

        do i = 1, size(place%targets)
            associate (target => place%targets(i))
                if (place%rank == 0) then
                    message = ''
                    if (target%name /= '') call attempt(make_directory, target%path, message)
                    if (message /= '') then
                        call target%error%set(exit_io, 'mkdir', target%path, message)
                    else if (target%request%is_set()) then
                        call place%keeper%set(target%path, target%request, target%error)
                        call place%keeper%echo(target%path, target%echoed, target%is_echoed)
                    end if
                end if
                call agree(target%error, place%comm)
                if (target%name == '') error = target%error
            end associate
        end do
    end subroutine lay_out_targets

    !> Removes the directory on a rank that has made it, after all files. The text is empty, or says
    !> why it failed, and names a file that is left.
    subroutine remove_run_directory(place, text)
        type(run_place), intent(in) :: place
        character(:), allocatable, intent(out) :: text

        character(:), allocatable :: ignored, left
        integer :: i

        do i = 1, size(place%targets)
            if (place%targets(i)%name /= '') call attempt(remove_directory, &
                place%targets(i)%path, ignored)
        end do
        call attempt(remove_directory, place%run_path, text)
        if (text == '') return
        left = first_entry(place%run_path)
        if (left /= '') text = 'not empty: '//left//' is left'
    end subroutine remove_run_directory

    !> Lists all directories that the run has made, those inside first, each ended by NUL.
    pure function directories(self) result(text)
        class(run_place), intent(in) :: self
        character(:), allocatable :: text

        integer :: i

        text = ''
        do i = 1, size(self%targets)
            if (self%targets(i)%name /= '') text = text//self%targets(i)%path//achar(0)
        end do
        text = text//self%run_path//achar(0)
    end function directories

    !> Returns the path of a file in a target's directory, numbered if there are several. A file
    !> that is kept has its round in its name: those of other rounds are beside it.
    pure function path_of(self, target, backend, extension, file, files, kept_round) result(path)
        class(run_place), intent(in) :: self
        integer, intent(in) :: target               !! number
        character(*), intent(in) :: backend         !! name
        character(*), intent(in) :: extension       !! of its files, without the dot
        integer, intent(in) :: file                 !! from 0
        integer, intent(in) :: files                !! how many there are
        integer, intent(in), optional :: kept_round !! 0: the file is not kept
        character(:), allocatable :: path

        character(12) :: number     ! of six digits, or as many as it needs

        path = self%targets(target)%path//'/'//backend
        if (present(kept_round)) then
            if (kept_round > 0) path = path//'.round'//decimal(kept_round)
        end if
        number = ''
        if (files > 1) write (number, '(".",i0.6)') file
        path = path//trim(number)//'.'//extension
    end function path_of

end module benchio_run_directory
