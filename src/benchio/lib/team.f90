!> All ranks of a run: what each does, where, and with whom.
module benchio_team
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use mpi_f08, only: MPI_Comm, MPI_Comm_rank, MPI_Comm_size
    use benchio_backend, only: backend
    use benchio_failure, only: agree, exit_internal, exit_usage, failure
    use benchio_layout, only: file_of_ranks, layout, new_layout, node_of_ranks, plan_role, &
        read_shift, role
    use benchio_measurement, only: job
    use benchio_options, only: options
    use benchio_settings, only: hint
    use benchio_striping, only: check_striping, striping
    use benchio_target, only: target_directory
    use benchio_text, only: decimal
    use benchio_watchdog, only: watchdog
    implicit none (type, external)
    private

    public :: case_index, new_job, new_team

    !> What a backend or its file was seen to do, of the last round; on rank 0.
    type, public :: observation
        type(hint), allocatable :: hints(:)
        character(:), allocatable :: collective         !! in writing
        character(:), allocatable :: collective_read
        type(striping) :: stripes
        logical :: striped = .false.                !! stripes are known
    end type observation

    !> What reading met of caches, over all rounds; on rank 0.
    type, public :: cache_state
        real(real64) :: other_node = 0              !! fraction of ranks reading another node's data
        real(real64) :: resident = 0                !! largest fraction of a file in the page cache
    end type cache_state

    type, public :: team
        type(options) :: choice
        type(target_directory) :: place
        type(MPI_Comm) :: comm                      !! all ranks
        integer :: rank = 0, ranks = 1
        integer, allocatable :: node(:)             !! of each rank, from 0
        integer, allocatable :: file(:)             !! of each rank, from 0
        integer :: shift = 0                        !! a reader plays the rank that many above it
        type(role) :: own, played                   !! in writing, in reading
        type(layout) :: own_file, played_file
        logical :: removes = .false.                !! this rank removes its file
        type(job) :: work                           !! the one under way
        type(observation), allocatable :: seen(:)   !! of each backend
        type(cache_state), allocatable :: cache(:)  !! of each backend
    contains
        procedure :: path_of
        procedure :: instance
        procedure :: allocate_storage
        procedure :: observe
    end type team

contains

    !> Collective: everybody's role. Usage errors come as a failure with exit status 2.
    subroutine new_team(choice, comm, group, error)
        type(options), intent(in) :: choice
        type(MPI_Comm), intent(in) :: comm
        type(team), intent(out) :: group
        type(failure), intent(inout) :: error

        character(:), allocatable :: message
        integer :: played, rank_in_file

        group%choice = choice
        group%comm = comm
        call MPI_Comm_rank(comm, group%rank)
        call MPI_Comm_size(comm, group%ranks)
        group%node = node_of_ranks(comm)
        call file_of_ranks(choice%files, choice%instances, group%node, group%file, message)
        if (message /= '') call error%set(exit_usage, '', '', message)
        if (.not. error%failed()) then
            group%shift = read_shift(group%node)
            played = mod(group%rank + group%shift, group%ranks)
            call plan_role(choice, group%file, group%rank, group%own, message)
            if (message == '') call plan_role(choice, group%file, played, group%played, message)
            if (message /= '') call error%set(exit_usage, '', '', message)
        end if
        call agree(error, comm)
        if (error%failed()) return

        group%own_file = new_layout(choice, group%file, group%rank, comm)
        group%played_file = new_layout(choice, group%file, played, comm)
        call MPI_Comm_rank(group%own_file%ranks, rank_in_file)
        group%removes = rank_in_file == 0
        allocate (group%seen(size(choice%backends)), group%cache(size(choice%backends)))
    end subroutine new_team

    !> The number of a case, operations before backends; 0 if the operation is not measured.
    pure integer function case_index(choice, operation, backend_number)
        type(options), intent(in) :: choice
        character(*), intent(in) :: operation
        integer, intent(in) :: backend_number

        integer :: at

        at = findloc(choice%operations == operation, .true., 1)
        case_index = 0
        if (at > 0) case_index = (at - 1)*size(choice%backends) + backend_number
    end function case_index

    !> A backend's file, numbered if there are several.
    function path_of(self, method, file) result(path)
        class(team), intent(in) :: self
        class(backend), intent(in) :: method
        integer, intent(in) :: file
        character(:), allocatable :: path

        character(8) :: number

        number = ''
        if (maxval(self%file) > 0) write (number, '(".",i6.6)') file
        path = self%place%path//'/benchio.'//method%name//trim(number)//'.'//method%extension
    end function path_of

    !> The instance of a rank, counted past the last from 0 again.
    pure integer function instance(self, rank)
        class(team), intent(in) :: self
        integer, intent(in) :: rank

        instance = mod(rank, self%ranks)/(self%ranks/self%choice%instances)
    end function instance

    !> What a rank needs to write its own file, or to read that of the rank it plays.
    function new_job(group, method, played) result(work)
        type(team), intent(in) :: group
        class(backend), intent(in) :: method
        logical, intent(in) :: played
        type(job) :: work

        if (played) then
            work%path = group%path_of(method, group%played%file)
            work%sharers = group%played_file
            work%block = group%played%block
        else
            work%path = group%path_of(method, group%own%file)
            work%sharers = group%own_file
            work%block = group%own%block
        end if
        work%settings = group%choice%settings
        work%sync = group%choice%sync == 'data'
        work%together = work%sharers%ranks
        if (group%choice%phase_barrier) work%together = group%comm
        work%dog%limit = group%choice%phase_limit
        work%dog%rank = group%rank
        work%dog%path = work%path
        work%dog%files = maxval(group%file) + 1
        work%dog%numbered = len(work%path) - len('000000.'//method%extension)
    end function new_job

    !> Collective: room for the larger of this rank's two blocks, with halo.
    subroutine allocate_storage(self, storage, error)
        class(team), intent(in) :: self
        real(real64), allocatable, intent(out) :: storage(:)
        type(failure), intent(inout) :: error

        integer(int64) :: elements
        integer :: code

        elements = max(self%own%block%field_bytes(), self%played%block%field_bytes())/8
        allocate (storage(elements), stat=code)
        if (code /= 0) then
            call error%set(exit_internal, 'allocate', '', 'no memory for the local array of ' &
                //decimal(8*elements)//' bytes')
        end if
        call agree(error, self%comm)
    end subroutine allocate_storage

    !> Collective: what the backend and the filesystem made of what was asked for.
    subroutine observe(self, method, i, error)
        class(team), intent(inout) :: self
        class(backend), intent(in) :: method
        integer, intent(in) :: i
        type(failure), intent(inout) :: error

        self%seen(i)%hints = method%echoed_hints()
        self%seen(i)%collective = method%observed_collective()
        if (self%removes) then      ! the first rank of each file
            call check_striping(self%path_of(method, self%own%file), self%choice%stripes, &
                self%seen(i)%stripes, self%seen(i)%striped, error)
        end if
        call agree(error, self%comm)
    end subroutine observe

end module benchio_team
