!> The result of a run, what may be said of it, and what a run does in each of its rounds.
!>
!> The law is kept here: a rate leaves benchio only from rounds in which nothing failed, the data
!> were forced to stable storage, and the witness confirmed every byte.
module benchio_result
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use mpi_f08, only: MPI_2DOUBLE_PRECISION, MPI_Allreduce, MPI_DOUBLE_PRECISION, MPI_Gather, &
        MPI_IN_PLACE, MPI_MAXLOC, MPI_Reduce, MPI_SUM
    use benchio_access, only: element_bytes
    use benchio_decomposition, only: decomposition
    use benchio_environment, only: look_around, surroundings
    use benchio_evidence, only: evidence
    use benchio_failure, only: exit_library, exit_ok, exit_time_limit, failure
    use benchio_file_layout, only: file_layout
    use benchio_filesystem, only: name_listed
    use benchio_kept_files, only: kept_files
    use benchio_ownership, only: ownership
    use benchio_nodes, only: node_list
    use benchio_node_state, only: facts, look_at_node, node_facts, node_state, own_ticks
    use benchio_json_writer, only: json_writer
    use benchio_options, only: given_options, operation_word, options
    use benchio_phases, only: phase_create, phase_list, phase_open, phase_read, phase_stat, &
        phase_write, timing
    use benchio_posix, only: peak_rss, utc_now
    use benchio_quantiles, only: distribution
    use benchio_registry, only: backend_item
    use benchio_run_directory, only: run_place
    use benchio_settings, only: hint
    use benchio_witness, only: testimony
    implicit none (type, external)
    private

    public :: case_index, contiguous_bytes, gather_environment, gather_memory, gather_nodes
    public :: has_cases, is_cache_suspect, measured_rounds, new_repetition, room_of_round

    !> A part of the bytes that may be in a page cache for any reason.
    real(real64), parameter, public :: negligible_fraction = 0.01_real64

    real(real64), parameter :: mib = 2.0_real64**20

    !> The calls whose latency is measured, by their phases, and what each file of it holds.
    integer, parameter, public :: latencies = 6, latency_file_bytes = 4096
    integer, parameter, public :: latency_phases(latencies) = [phase_open, phase_stat, &
        phase_create, phase_write, phase_read, phase_list]

    !> What single calls took in a round.
    type, public :: latency_figures
        real(real64) :: clock = -1                  !! what the clock takes by itself, seconds
        logical :: is_cold = .false.                !! reads came from below the page cache
        type(distribution), allocatable :: of_call(:)   !! none: nothing was measured
    end type latency_figures

    !> One write or read of all files by one backend, witnessed.
    type, public :: repetition
        integer :: round = 0, position = 0          !! round 0: none, its target has failed
        logical :: is_warmup = .false.
        character(:), allocatable :: started        !! date and time, UTC
        type(timing) :: times
        integer(int64) :: file_bytes = 0            !! of all files, as their sizes say
        type(testimony) :: witness
        type(latency_figures) :: latency
        real(real64) :: suspended = 0               !! seconds in which a rank was stopped meanwhile
    end type repetition

    !> Observations of a backend and its files, and of caches that its reads met.
    type, public :: observation
        type(hint), allocatable :: hints(:)
        character(:), allocatable :: collective_metadata
        character(:), allocatable :: collective         !! in writing
        character(:), allocatable :: collective_read
        type(file_layout) :: layout
        integer :: subfiles = 0                     !! that hold the bytes of a file; 0: it is one
        integer :: subfile_writers = 0              !! ranks that wrote them for all
        integer(int64) :: subfile_stripe = 0        !! bytes that follow each other in one
        real(real64) :: page_cache_fraction = 0     !! of a read, the largest; < 0: not known
    end type observation

    !> What is at work: a backend on a target, and when.
    type, public :: turn_of_round
        integer :: backend = 1, target = 1
        integer :: round = 0, position = 0          !! in the round
    end type turn_of_round

    !> What a run does in each round. An operation is an extension in one file, which the registry
    !> of operations names.
    type, abstract, public :: operation
    contains
        procedure(words_of), deferred, nopass :: words  !! of --operation that ask for it
        procedure(settle_options), deferred, nopass :: settle
        procedure(plan_of), deferred, nopass :: plan    !! what a round takes; or it fails
        procedure :: begin => nothing_to_begin      !! before the first round; or it fails
        procedure(do_round_of), deferred :: do_round
        procedure :: finish => nothing_to_finish         !! after the last round
        procedure, nopass :: put_round => put_nothing   !! what only its rounds have
        procedure(text_of), deferred, nopass :: says    !! who does what
        procedure(text_of), deferred, nopass :: table   !! of the measured rounds, for a person
    end type operation

    !> Options, rounds and end of one run; complete on rank 0.
    type, public :: run_result
        type(options) :: choice
        class(operation), pointer :: operation => null()    !! that the options ask for
        type(run_place) :: place
        type(ownership) :: plan
        type(kept_files) :: kept                            !! if it reads what is there already
        integer(int64) :: bytes = 0                         !! of all files, each round
        !> What these take on the filesystem: bytes, and blocks where files are small.
        integer(int64) :: room = 0, blocks = 0
        character(:), allocatable :: started                !! date and time, UTC
        type(node_list) :: nodes                            !! with their hosts
        type(observation), allocatable :: seen(:, :)        !! (backend, target)
        type(repetition), allocatable :: records(:, :)      !! (case, round)
        integer :: completed = 0                            !! rounds
        real(real64) :: field_mib = 0, peak_rss_mib = 0     !! of the rank that has most
        integer :: peak_rank = 0
        real(real64), allocatable :: facts_of_node(:, :)    !! (fact, node)
        type(surroundings) :: around
        type(failure) :: error
        logical :: may_have_open_file = .false.             !! that a round could not finish
        type(evidence) :: wrong                             !! data that ended the run
    end type run_result

    abstract interface
        function words_of() result(words)
            import :: operation_word
            type(operation_word), allocatable :: words(:)
        end function words_of

        !> Refuses options that exclude each other, and settles what they say of others.
        subroutine settle_options(choice, given)
            import :: given_options, options
            type(options), intent(inout) :: choice      !! with the words in its operations
            type(given_options), intent(inout) :: given
        end subroutine settle_options

        !> Collective.
        subroutine plan_of(run)
            import :: run_result
            type(run_result), intent(inout) :: run
        end subroutine plan_of

        !> Does one round, on one backend and target. After a failure nothing of it is left that can
        !> be removed, but files that are evidence. Collective.
        subroutine do_round_of(self, run, methods, at)
            import :: backend_item, operation, run_result, turn_of_round
            class(operation), intent(inout) :: self
            type(run_result), intent(inout) :: run      !! changes once nothing is watched any more
            type(backend_item), intent(in), target :: methods(:)
            type(turn_of_round), intent(in) :: at
        end subroutine do_round_of

        function text_of(run) result(text)
            import :: run_result
            type(run_result), intent(in) :: run
            character(:), allocatable :: text
        end function text_of
    end interface

contains

    !> Begins what most operations need not. Collective.
    subroutine nothing_to_begin(self, run)
        class(operation), intent(inout) :: self
        type(run_result), intent(inout) :: run
    end subroutine nothing_to_begin

    subroutine nothing_to_finish(self)
        class(operation), intent(inout) :: self
    end subroutine nothing_to_finish

    subroutine put_nothing(json, path, record)
        type(json_writer), intent(inout) :: json
        character(*), intent(in) :: path
        type(repetition), intent(in) :: record
    end subroutine put_nothing

    !> Begins the record of a round.
    type(repetition) function new_repetition(run, at) result(record)
        type(run_result), intent(in) :: run
        type(turn_of_round), intent(in) :: at

        record%round = at%round
        record%position = at%position
        record%is_warmup = at%round <= run%choice%warmup
        record%started = utc_now()
    end function new_repetition

    !> Finds the rank with the highest memory mark until now, and the largest field. Collective.
    subroutine gather_memory(run)
        type(run_result), intent(inout) :: run

        real(real64) :: highest(2, 2)               ! MiB and its rank, of field and process

        highest(1, :) = [real(run%plan%write_share%block%field_bytes(), real64), &
            real(peak_rss(), real64)]/mib
        highest(2, :) = run%plan%rank
        call MPI_Allreduce(MPI_IN_PLACE, highest, 2, MPI_2DOUBLE_PRECISION, MPI_MAXLOC, &
            run%plan%comm)
        run%field_mib = highest(1, 1)
        run%peak_rss_mib = highest(1, 2)
        run%peak_rank = nint(highest(2, 2))
    end subroutine gather_memory

    !> Gathers what the nodes did besides since they were looked at. The first rank on each says so.
    !> Collective.
    subroutine gather_nodes(run, before)
        type(run_result), intent(inout) :: run
        type(node_state), intent(in) :: before      !! of this rank's node

        type(node_state) :: after
        real(real64) :: mine(facts), ranks

        after = look_at_node(run%plan%nodes%is_leader)
        call MPI_Reduce(own_ticks(before, after), ranks, 1, MPI_DOUBLE_PRECISION, MPI_SUM, 0, &
            run%plan%nodes%on_node)
        if (.not. run%plan%nodes%is_leader) return
        mine = node_facts(before, after, ranks)
        call MPI_Gather(mine, facts, MPI_DOUBLE_PRECISION, run%facts_of_node, facts, &
            MPI_DOUBLE_PRECISION, 0, run%plan%nodes%leaders)
    end subroutine gather_nodes

    !> Looks at what is around all ranks besides the options. Collective.
    subroutine gather_environment(run)
        type(run_result), intent(inout) :: run

        call look_around(run%choice%environment, run%choice%directory, run%plan%nodes, &
            run%plan%comm, run%around)
    end subroutine gather_environment

    !> The number of a case, operations before backends before targets; 0 if the operation is not
    !> measured.
    pure integer function case_index(choice, operation, backend, target)
        type(options), intent(in) :: choice
        character(*), intent(in) :: operation
        integer, intent(in) :: backend, target

        integer :: at

        at = findloc(choice%operations == operation, .true., 1)
        case_index = 0
        if (at > 0) case_index = ((at - 1)*size(choice%backends) + backend - 1) &
            *max(1, size(choice%targets)) + target
    end function case_index

    !> A run that met its time limit, or that a library ended, keeps the rounds it completed, if one
    !> was measured.
    pure logical function has_cases(run)
        type(run_result), intent(in) :: run

        has_cases = run%error%status == exit_ok .or. (any(run%error%status == &
            [exit_time_limit, exit_library]) .and. run%completed > run%choice%warmup)
    end function has_cases

    !> What the files of a round take on the filesystem, bytes: small ones a block each, but where
    !> a block is what a stripe is.
    pure integer(int64) function room_of_round(run)
        type(run_result), intent(in) :: run

        integer(int64), parameter :: largest_block = 65536

        room_of_round = run%room + run%blocks*max(1_int64, min(run%place%mounted%block_bytes, &
            largest_block))
    end function room_of_round

    !> Whether what was read may have come from a cache: unless the page caches were seen to be
    !> empty, and either the data came from another node or the filesystem has no cache but the
    !> kernel's.
    pure logical function is_cache_suspect(run, backend, target)
        type(run_result), intent(in) :: run
        integer, intent(in) :: backend, target

        associate (in_memory => run%seen(backend, target)%page_cache_fraction)
            is_cache_suspect = in_memory < 0 .or. in_memory > negligible_fraction &
                .or. (run%plan%other_node_byte_fraction < 1.0_real64 &
                .and. .not. name_listed(run%place%filesystem, 'ext4,xfs,btrfs'))
        end associate
    end function is_cache_suspect

    !> The run of bytes that a block has in one piece in the file: the size of request that the
    !> decomposition implies.
    pure integer(int64) function contiguous_bytes(block)
        type(decomposition), intent(in) :: block

        contiguous_bytes = element_bytes*block%extent(1)
        if (block%extent(1) < block%global(1)) return
        contiguous_bytes = contiguous_bytes*block%extent(2)
        if (block%extent(2) < block%global(2)) return
        contiguous_bytes = contiguous_bytes*(block%extent(3)/block%layers)
        if (block%extent(3) == block%global(3)) contiguous_bytes = contiguous_bytes*block%layers
    end function contiguous_bytes

    !> The rounds in which a case was measured: all that are complete, but those in which its target
    !> had failed.
    pure function measured_rounds(run, number) result(rounds)
        type(run_result), intent(in) :: run
        integer, intent(in) :: number
        integer, allocatable :: rounds(:)

        integer :: i

        rounds = [(i, i=run%choice%warmup + 1, run%completed)]
        rounds = pack(rounds, run%records(number, rounds)%round > 0)
    end function measured_rounds

end module benchio_result
