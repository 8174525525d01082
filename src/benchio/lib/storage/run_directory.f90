!> The directory that a run is given, and the directory that it makes in there for its files.
!>
!> All files are in the run's directory: a layout is set on nothing of the user's, and the run meets
!> no file of another program. If storage targets are measured one by one, each has a directory in
!> it.
module benchio_run_directory
    use, intrinsic :: iso_fortran_env, only: int64
    use mpi_f08, only: MPI_Allreduce, MPI_Bcast, MPI_CHARACTER, MPI_Comm, MPI_Comm_rank, &
        MPI_INTEGER, MPI_LOGICAL, MPI_LOR
    use benchio_failure, only: agree, exit_internal, exit_io, failure
    use benchio_file_layout, only: component, layout_keeper, layout_request
    use benchio_filesystem, only: filesystem_name, is_of_node, magic_text, name_listed
    use benchio_mount, only: filesystem_facts, lies_elsewhere, mounted_filesystem
    use benchio_other_layouts, only: choose_layout_keeper
    use benchio_posix, only: attempt, first_entry, make_directory, path_exists, random_digits, &
        real_path, remove_directory
    use benchio_text, only: decimal, one_line
    implicit none (type, external)
    private

    public :: check_room, choose_run_id, filesystem_text, inspect_place, make_run_directory
    public :: place_targets, remove_run_directory

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
        character(:), allocatable :: identity       !! of this filesystem: type, name, mount point
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
        procedure :: require
    end type run_place

    !> Room for a library's headers beside the data.
    integer(int64), parameter :: header_bytes = 2_int64**20

    !> Characters of a path. Linux takes 4095; the rest is for the longest names of a run, a target
    !> and a file, and for what a library appends.
    integer, parameter :: longest_path = 3840

contains

    !> Checks that the directory exists, has an allowed type and can do what is asked for, and is on
    !> one filesystem on all nodes. Collective. Every rank looks: on its node a mount may be
    !> missing, and the directory below it be another filesystem.
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
        call look_at(directory, place, message)
        call compare_nodes(place, error)
        if (message /= '') then
            call error%set(exit_io, 'realpath', directory, message)
        else if (len(place%path) > longest_path) then
            call error%set(exit_io, 'realpath', place%path, 'the path has ' &
                //decimal(len(place%path))//' characters, and more than ' &
                //decimal(longest_path)//' leave no room for the names of files')
        end if
        if (allowed /= '' .and. .not. name_listed(place%filesystem, allowed)) then
            call error%set(exit_io, 'mount', place%path, 'filesystem is '//place%filesystem// &
                ' ('//place%magic//'), not '//allowed)
        end if
        allocate (place%targets(size(requests)))
        do i = 1, size(requests)
            place%targets(i)%name = trim(requests(i)%target)
            place%targets(i)%request = requests(i)
            message = place%keeper%refusal(requests(i), mdt_index)
            if (message /= '') call error%set(exit_io, 'layout', place%path, message)
        end do
        call agree(error, comm)
    end subroutine inspect_place

    !> Looks at a directory, or at the nearest one above it that is there: what keeps that from
    !> being it is then in the message.
    subroutine look_at(directory, place, message)
        character(*), intent(in) :: directory
        type(run_place), intent(inout) :: place
        character(:), allocatable, intent(out) :: message

        character(:), allocatable :: above, ignored, problem

        above = directory
        call real_path(above, place%path, message)
        problem = message
        do while (problem /= '' .and. index(above, '/') > 0)
            above = above(:index(above, '/', back=.true.) - 1)
            call real_path(above//'/', place%path, problem)
        end do
        if (problem /= '') call real_path('.', place%path, ignored)
        call filesystem_facts(place%path, place%mounted, problem)
        if (message == '') message = problem
        place%filesystem = filesystem_name(place%mounted%magic)
        if (place%filesystem == 'unknown' .and. place%mounted%type /= '') then
            place%filesystem = place%mounted%type
        end if
        place%magic = magic_text(place%mounted%magic)
        call choose_layout_keeper(place%filesystem, place%mounted, place%keeper)
        place%identity = identity_text(place, is_of_node(place%filesystem, place%mounted))
    end subroutine look_at

    !> Words as "ext4 UUID at /scratch on node1" or "lustre NAME at /lustre" which filesystem it is.
    !> What each node has for itself says so.
    function identity_text(place, of_node) result(text)
        type(run_place), intent(in) :: place
        logical, intent(in) :: of_node
        character(:), allocatable :: text

        character(:), allocatable :: identity

        text = place%filesystem
        if (text == 'fuse' .and. place%mounted%type /= '') text = place%mounted%type
        identity = place%keeper%identity()
        if (identity /= '') text = text//' '//identity
        text = text//' at '//place%mounted%point
        if (of_node) text = text//' on '//place%mounted%host
    end function identity_text

    !> Fails unless all nodes have the directory on the filesystem that rank 0 has it on; of what
    !> each has for itself, on one of that type with that mount point. Collective.
    subroutine compare_nodes(place, error)
        type(run_place), intent(in) :: place
        type(failure), intent(inout) :: error

        character(:), allocatable :: first, here
        integer :: length

        here = place%identity
        if (is_of_node(place%filesystem, place%mounted)) then
            here = place%filesystem//' at '//place%mounted%point
        end if
        length = len(here)
        call MPI_Bcast(length, 1, MPI_INTEGER, 0, place%comm)
        first = here(:min(len(here), length))//repeat(' ', max(0, length - len(here)))
        call MPI_Bcast(first, length, MPI_CHARACTER, 0, place%comm)
        if (first /= here) call error%set(exit_io, 'mount', place%path, 'is on '//here &
            //' here, from '//place%mounted%source//', and on '//first//' on the node of rank 0')
    end subroutine compare_nodes

    !> Says which filesystem a directory is on, a fact in each line: its identity, source and mount
    !> point, the options it is mounted with. A failure is the message.
    subroutine filesystem_text(directory, text, message)
        character(*), intent(in) :: directory
        character(:), allocatable, intent(out) :: text, message

        type(run_place) :: place
        character(1), parameter :: lf = new_line('a')

        call look_at(directory, place, message)
        text = one_line(place%identity)//lf//one_line(place%mounted%source)//lf &
            //one_line(place%mounted%point)//lf//one_line(place%mounted%options)//lf
    end subroutine filesystem_text

    !> Checks that the files fit which are there at one time. Collective.
    subroutine check_room(place, bytes, times, error)
        type(run_place), intent(in) :: place
        integer(int64), intent(in) :: bytes         !! of all files of a backend
        integer(int64), intent(in) :: times         !! backends whose files are there at one time
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

    !> Fails if a file of the run, or one that another run has kept, is not where its directory is:
    !> a link, or what is mounted in its place, may lead to any other storage.
    subroutine require(self, path, error)
        class(run_place), intent(in) :: self
        character(*), intent(in) :: path
        type(failure), intent(inout) :: error

        character(:), allocatable :: ignored
        type(run_place) :: there

        if (.not. lies_elsewhere(path, self%path)) return
        call look_at(path, there, ignored)
        call error%set(exit_io, 'mount', path, 'is a link, or something else is mounted there: ' &
            //'it is on '//there%identity//', and its directory on '//self%identity)
    end subroutine require

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
