!> The result of a run as benchio.result/3, a JSON text.
module benchio_result_json
    use, intrinsic :: iso_fortran_env, only: compiler_options, compiler_version, int64
    use benchio_access, only: element_bytes
    use benchio_environment, only: mpi_io_component
    use benchio_evidence, only: evidence, page_bytes
    use benchio_failure, only: failure
    use benchio_file_layout, only: component, file_layout
    use benchio_json_writer, only: json_writer
    use benchio_nodes, only: node_list
    use benchio_node_state, only: fact_names, facts
    use benchio_pattern, only: key_of_text, kind_names
    use benchio_phases, only: node_figure_names, node_spread, part_names, parts, phase_names, &
        phase_time, phases, rate_names, rates
    use benchio_posix, only: version
    use benchio_registry, only: learn_versions, libraries, versions
    use benchio_result, only: case_index, contiguous_bytes, has_cases, is_cache_suspect, &
        repetition, run_result
    use benchio_settings, only: hint
    use benchio_text, only: decimal
    implicit none (type, external)
    private

    public :: distinct, result_json

    !> Names of statuses by exit code. The result file is written after these alone.
    character(*), parameter :: status_names(0:7) = [character(18) :: 'ok', 'internal_error', '', &
        'io_error', 'verification_error', 'time_limit', '', 'library_error']

contains

    function result_json(run) result(text)
        type(run_result), intent(in) :: run
        character(:), allocatable :: text

        type(json_writer) :: json
        integer :: backend, cases, operation, target

        call json%put('schema', 'benchio.result/3')
        call json%put('status', status_names(run%error%status))
        call put_error(json, 'error', run%error)
        if (run%wrong%elements > 0) call put_evidence(json, 'error.evidence', run%wrong)
        call json%put('started', run%started)
        call json%put('benchio.version', version())
        call json%put('benchio.compiler', compiler_version())
        call json%put('benchio.compiler_options', compiler_options())
        call learn_versions()
        do backend = 1, size(libraries)
            if (libraries(backend) /= '') call json%put('libraries.'//trim(libraries(backend)), &
                versions(backend))
        end do
        call put_environment(json, run)
        call put_run(json, run)
        call json%put('memory.field_mib', run%field_mib)
        call json%put('memory.peak_rss_mib', run%peak_rss_mib)
        call json%put('memory.peak_rank', run%peak_rank)
        call json%enter('cases', ']')
        cases = 0
        do operation = 1, merge(size(run%choice%operations), 0, has_cases(run))
            do backend = 1, size(run%choice%backends)
                do target = 1, size(run%place%targets)
                    cases = cases + 1
                    call put_case(json, 'cases['//decimal(cases)//']', run, operation, backend, &
                        target)
                end do
            end do
        end do
        text = json%text()
    end function result_json

    !> Puts a failure; null if nothing failed.
    subroutine put_error(json, at, error)
        type(json_writer), intent(inout) :: json
        character(*), intent(in) :: at
        type(failure), intent(in) :: error

        if (.not. error%failed()) then
            call json%put_null(at)
            return
        end if
        call json%put(at//'.rank', error%rank)
        call json%put(at//'.host', error%host)
        call json%put(at//'.call', error%call)
        call json%put_verbatim(at, 'path', error%path)
        call json%put(at//'.message', error%message)
    end subroutine put_error

    !> Puts where data are wrong, and how.
    subroutine put_evidence(json, at, wrong)
        type(json_writer), intent(inout) :: json
        character(*), intent(in) :: at
        type(evidence), intent(in) :: wrong

        character(:), allocatable :: here
        character(16) :: digits
        integer :: i

        call json%put(at//'.elements', wrong%elements)
        call json%put(at//'.zeros', wrong%zeros)
        call json%put(at//'.extents', wrong%extents)
        call json%put(at//'.kept', wrong%is_kept)
        call json%enter(at//'.listed', ']')
        do i = 1, size(wrong%traced)
            associate (extent => wrong%traced(i))
                here = at//'.listed['//decimal(i)//']'
                call json%put_verbatim(here, 'path', extent%path)
                call json%put(here//'.first_element', extent%first)
                call json%put(here//'.bytes', extent%bytes())
                call json%put(here//'.offset', extent%offset, is_known=extent%offset >= 0)
                call json%put_numbers(here//'.pages', [extent%offset, extent%last_byte()] &
                    /page_bytes, is_known=extent%offset >= 0)
                call json%put(here//'.stripe', extent%stripe, is_known=extent%stripe >= 0)
                call json%put(here//'.ost', extent%ost, is_known=extent%ost >= 0)
                call json%put(here//'.writer', extent%writer, is_known=extent%writer >= 0)
                call json%put(here//'.host', extent%host)
                call json%put(here//'.kind', kind_names(extent%kind))
                call json%put(here//'.shift', extent%shift*element_bytes, &
                    is_known=extent%shift /= 0)
                call json%put(here//'.of', extent%pattern)
                write (digits, '(z16.16)') extent%expected
                call json%put(here//'.expected', digits)
                write (digits, '(z16.16)') extent%read
                call json%put(here//'.read', digits)
            end associate
        end do
    end subroutine put_evidence

    subroutine put_environment(json, run)
        type(json_writer), intent(inout) :: json
        type(run_result), intent(in) :: run

        character(:), allocatable :: at
        integer :: i

        associate (around => run%around)
            call put_hints(json, 'environment.variables', around%variables)
            call put_hints(json, 'environment.contents', around%contents)
            call put_hints(json, 'environment.libraries', around%libraries)
            call json%put('environment.mpi_io', mpi_io_component(around%libraries))
            call json%put('environment.other_rank', around%other_rank, &
                is_known=around%other_rank >= 0)
            call json%enter('environment.of_job', '}')
            do i = 1, size(around%of_job)
                associate (variable => around%of_job(i))
                    at = 'environment.of_job.'//variable%name
                    call json%put(at//'.telling', variable%is_telling)
                    call put_text(at, 'value', variable%value)
                    call json%put(at//'.other_rank', variable%other_rank, &
                        is_known=variable%other_rank >= 0)
                    call json%put(at//'.other_host', run%nodes%host_of(variable%other_rank))
                    call put_text(at, 'other_value', variable%other_value)
                end associate
            end do
        end associate

    contains

        !> Puts a text of any length; null if there is none.
        subroutine put_text(object, key, text)
            character(*), intent(in) :: object, key
            character(:), allocatable, intent(in) :: text

            if (allocated(text)) call json%put_verbatim(object, key, text)
            if (.not. allocated(text)) call json%put_null(object//'.'//key)
        end subroutine put_text

    end subroutine put_environment

    !> Puts what was asked of a run, and where it ran.
    subroutine put_run(json, run)
        type(json_writer), intent(inout) :: json
        type(run_result), intent(in) :: run

        character(:), allocatable :: at
        integer :: fact, node
        logical :: is_weak

        associate (choice => run%choice, place => run%place, block => run%plan%write_share%block, &
            settings => run%choice%settings)
            call json%put('run.id', choice%run_id)
            call json%put('run.ranks', run%plan%ranks)
            call json%put('run.hosts', run%nodes%hosts(distinct(run%nodes%hosts)))
            do node = 1, size(run%facts_of_node, 2)
                at = 'run.nodes['//decimal(node)//'].'
                call json%put(at//'host', run%nodes%hosts(node))
                do fact = 1, facts
                    call json%put(at//trim(fact_names(fact)), run%facts_of_node(fact, node))
                end do
            end do
            call json%put('run.directory', place%path)
            call json%put('run.filesystem.type', place%filesystem)
            call json%put('run.filesystem.magic', place%magic)
            call json%put('run.filesystem.mount_type', place%mounted%type)
            call json%put_verbatim('run.filesystem', 'mount_point', place%mounted%point)
            call json%put_verbatim('run.filesystem', 'source', place%mounted%source)
            call json%put_verbatim('run.filesystem', 'options', place%mounted%options)
            call json%put('run.filesystem.uuid', place%mounted%uuid)
            call json%put('run.filesystem.fsid', place%mounted%fsid)
            call json%put_verbatim('run.filesystem', 'identity', place%identity)
            call json%put('run.filesystem.bytes', place%mounted%bytes)
            call json%put('run.filesystem.free_bytes', place%mounted%free_bytes)
            call json%put('run.filesystem.mdt_index', place%mdt_index, &
                is_known=place%mdt_index >= 0)
            call json%put('run.operations', choice%words)
            if (choice%reads_existing) then
                call json%put('run.existing.id', run%kept%run_id)
                call json%put('run.existing.started', run%kept%started)
                call json%put('run.existing.ranks', run%kept%writers)
                call json%put('run.existing.hosts', run%kept%nodes%hosts( &
                    distinct(run%kept%nodes%hosts)))
            else
                call json%put_null('run.existing')
            end if
            call json%put('run.files', choice%files)
            call json%put('run.file_count', run%plan%files)
            call json%put('run.instances', choice%instances)
            call json%put_numbers('run.file_size', block%global)
            is_weak = all(choice%local_size > 0)
            call json%put_numbers('run.global_size', choice%global_size, is_known=.not. is_weak)
            call json%put_numbers('run.local_size', choice%local_size, is_known=is_weak)
            call json%put_numbers('run.grid', block%grid)
            call json%put('run.contiguous_bytes', contiguous_bytes(block))
            call json%put('run.halo', choice%halo)
            call json%put('run.bytes', run%bytes)
            if (choice%word%takes('--items')) call json%put('run.items', choice%items)
            if (choice%word%takes('--per-file')) call json%put('run.per_file', choice%per_file)
            if (choice%word%takes('--sample')) call json%put('run.sample', choice%sample_bytes)
            if (choice%word%takes('--seconds')) call json%put('run.seconds', choice%seconds)
            call json%put('run.repeats', choice%repeats)
            call json%put('run.warmup', choice%warmup)
            call json%put('run.settle', choice%settle)
            call json%put('run.phase_barrier', choice%phase_barrier)
            call json%put('run.phase_limit', choice%phase_limit)
            call json%put('run.time_limit', choice%time_limit)
            call json%put('run.transfer', settings%transfer_bytes)
            call json%put('run.flush', settings%flush)
            call json%put('run.direct', settings%direct)
            call json%put('run.alignment', settings%alignment)
            call json%put_numbers('run.chunk', settings%chunk)
            call json%put('run.file_format', merge('latest  ', 'earliest', settings%latest_format))
        end associate
        associate (access => run%choice%settings%access)
            call json%put('run.access.order', access%order)
            call json%put('run.access.steps', access%steps)
            call json%put('run.access.variables', access%variables)
            call json%put('run.access.deflate', access%deflate)
            call json%put('run.access.quantize', access%quantize)
            call json%put('run.access.nonblocking', access%is_nonblocking)
            call json%put('run.access.subfiles', access%subfiles)
        end associate
    end subroutine put_run

    !> The first node of each host, from 1: a host may be seen as several nodes. Hashes are compared
    !> first, for there may be very many hosts.
    pure function distinct(hosts) result(nodes)
        character(*), intent(in) :: hosts(:)        !! of each node
        integer, allocatable :: nodes(:)

        integer(int64), allocatable :: hashes(:)
        integer :: i, listed

        allocate (nodes(size(hosts)), hashes(size(hosts)))
        listed = 0
        do i = 1, size(hosts)
            hashes(listed + 1) = key_of_text(trim(hosts(i)))
            if (any(hashes(:listed) == hashes(listed + 1))) then
                if (any(hosts(nodes(:listed)) == hosts(i))) cycle
            end if
            listed = listed + 1
            nodes(listed) = i
        end do
        nodes = nodes(:listed)
    end function distinct

    !> Puts one operation of one backend on one target.
    subroutine put_case(json, at, run, operation, backend, target)
        type(json_writer), intent(inout) :: json
        character(*), intent(in) :: at
        type(run_result), intent(in) :: run
        integer, intent(in) :: operation, backend, target   !! numbers

        character(:), allocatable :: here
        integer :: number, repetitions, round

        associate (place => run%place%targets(target), seen => run%seen(backend, target), &
            settings => run%choice%settings)
            call json%put(at//'.operation', run%choice%operations(operation))
            call json%put(at//'.backend', run%choice%backends(backend))
            if (place%name == '') then
                call json%put_null(at//'.target')
            else
                call json%put(at//'.target.name', place%name)
                call put_error(json, at//'.target.error', place%error)
            end if
            call put_hints(json, at//'.hints.requested', settings%hints)
            if (size(seen%hints) > 0) call put_hints(json, at//'.hints.echoed', seen%hints)
            if (size(seen%hints) == 0) call json%put_null(at//'.hints.echoed')
            call json%put_null(at//'.hints.observed')
            call json%put(at//'.collective.requested', settings%collective)
            call json%put_null(at//'.collective.echoed')
            if (run%choice%reads(operation)) then
                call json%put(at//'.collective.observed', seen%collective_read)
            else
                call json%put(at//'.collective.observed', seen%collective)
            end if
            call json%put(at//'.collective_metadata.requested', settings%collective_metadata)
            call json%put(at//'.collective_metadata.echoed', seen%collective_metadata)
            call json%put_null(at//'.collective_metadata.observed')
            here = at//'.layout.requested'
            associate (request => place%request)
                if (request%is_set()) then      ! a target is one stripe, on CephFS a pool
                    call json%put(here//'.stripe_count', merge(1_int64, request%stripe_count, &
                        request%target /= ''))
                    call json%put(here//'.stripe_size', request%stripe_size)
                    call json%put(here//'.pool', request%pool)
                    call json%put(here//'.setstripe', request%setstripe)
                else
                    call json%put_null(here)
                end if
            end associate
            if (place%is_echoed) call put_stripes(json, at//'.layout.echoed', place%echoed)
            if (.not. place%is_echoed) call json%put_null(at//'.layout.echoed')
            call put_layout(json, at//'.layout.observed', seen%layout)
            if (seen%subfiles == 0) then
                call json%put_null(at//'.subfiles')
            else
                call json%put(at//'.subfiles.requested', settings%access%subfiles)
                call json%put(at//'.subfiles.observed.count', seen%subfiles)
                call json%put(at//'.subfiles.observed.stripe_size', seen%subfile_stripe)
                call json%put(at//'.subfiles.observed.ranks', seen%subfile_writers)
            end if
            if (run%choice%reads(operation)) then
                call json%put(at//'.cache.other_node_byte_fraction', &
                    run%plan%other_node_byte_fraction)
                call json%put(at//'.cache.page_cache_fraction', seen%page_cache_fraction)
                call json%put(at//'.cache.suspect', is_cache_suspect(run, backend, target))
            else
                call json%put_null(at//'.cache')
            end if
        end associate
        call json%enter(at//'.repetitions', ']')
        number = case_index(run%choice, trim(run%choice%operations(operation)), backend, target)
        repetitions = 0
        do round = 1, run%completed
            if (run%records(number, round)%round == 0) cycle
            repetitions = repetitions + 1
            call put_repetition(json, at//'.repetitions['//decimal(repetitions)//']', run, &
                run%records(number, round))
        end do
    end subroutine put_case

    subroutine put_hints(json, at, hints)
        type(json_writer), intent(inout) :: json
        character(*), intent(in) :: at
        type(hint), intent(in) :: hints(:)

        integer :: i

        call json%enter(at, '}')
        do i = 1, size(hints)
            call json%put_verbatim(at, hints(i)%key, hints(i)%value)
        end do
    end subroutine put_hints

    !> Puts the layout that was observed, first the component that holds the data.
    subroutine put_layout(json, at, layout)
        type(json_writer), intent(inout) :: json
        character(*), intent(in) :: at
        type(file_layout), intent(in) :: layout

        character(:), allocatable :: part
        integer :: i

        if (.not. layout%is_known) then
            call json%put_null(at)
            return
        end if
        call put_stripes(json, at, layout%holder)
        call json%put_numbers(at//'.osts', layout%holder%osts)
        call json%enter(at//'.components', ']')
        do i = 1, size(layout%components)
            part = at//'.components['//decimal(i)//']'
            call json%put(part//'.first_byte', layout%components(i)%first_byte)
            call json%put(part//'.end_byte', layout%components(i)%end_byte)
            call json%put(part//'.pattern', layout%components(i)%pattern)
            call put_stripes(json, part, layout%components(i))
            call json%put_numbers(part//'.osts', layout%components(i)%osts)
            call json%put(part//'.is_instantiated', layout%components(i)%is_instantiated)
        end do
        call json%put(at//'.said', layout%said)
    end subroutine put_layout

    subroutine put_stripes(json, at, stripes)
        type(json_writer), intent(inout) :: json
        character(*), intent(in) :: at
        type(component), intent(in) :: stripes

        call json%put(at//'.stripe_count', stripes%stripe_count)
        call json%put(at//'.stripe_size', stripes%stripe_size)
        call json%put(at//'.pool', stripes%pool)
    end subroutine put_stripes

    subroutine put_repetition(json, at, run, record)
        type(json_writer), intent(inout) :: json
        character(*), intent(in) :: at
        type(run_result), intent(in) :: run
        type(repetition), intent(in) :: record

        character(:), allocatable :: name
        integer :: i

        call json%put(at//'.round', record%round)
        call json%put(at//'.position', record%position)
        call json%put(at//'.warmup', record%is_warmup)
        if (record%suspended > 0) call json%put(at//'.suspended', record%suspended)
        call json%put(at//'.started', record%started)
        call json%enter(at//'.phases', '}')
        do i = 1, phases
            associate (phase => record%times%of_phase(i))
                if (.not. phase%occurs) cycle
                name = at//'.phases.'//trim(phase_names(i))
                call put_times(json, name, phase, run%nodes)
                call json%put(name//'.window', phase%window)
                call json%put(name//'.file_window', phase%file_window)
                if (phase%by_rank_0 >= 0) then
                    call json%put(name//'.by_ranks', phase%by_ranks)
                    call json%put(name//'.by_rank_0', phase%by_rank_0)
                end if
                if (phase%between >= 0) then
                    call json%put(name//'.between', phase%between)
                    call json%put(name//'.overlap', phase%overlap)
                end if
                if (phase%operations == 0) cycle
                call json%put(name//'.operations', phase%operations)
                call json%put(name//'.rate', phase%operations/phase%window)
            end associate
        end do
        call json%enter(at//'.parts', '}')
        do i = 1, parts
            if (record%times%of_part(i)%occurs) call put_times(json, at//'.parts.' &
                //trim(part_names(i)), record%times%of_part(i), run%nodes)
        end do
        call put_of_nodes(json, at//'.nodes', record%times%of_nodes, run%nodes)
        call json%put(at//'.clocks_agree', record%times%clocks_agree)
        call json%put(at//'.clock_step', record%times%clock_step)
        call json%enter(at//'.rates', '}')
        do i = 1, rates
            if (record%times%has_rate(i)) call json%put(at//'.rates.'//trim(rate_names(i)), &
                record%times%rate(i))
        end do
        if (run%choice%instances == 1) call json%put_null(at//'.instances')
        do i = 1, merge(run%choice%instances, 0, run%choice%instances > 1)
            call json%put(at//'.instances['//decimal(i)//']', &
                record%times%instance_mib(i)/record%times%instance_window(i))
        end do
        call run%operation%put_round(json, at, record)
        call json%put(at//'.file_bytes', record%file_bytes)
        associate (witness => record%witness)
            call json%put(at//'.witness.method', trim(merge('through the library', &
                'pread              ', witness%is_through_library)))
            call json%put(at//'.witness.direct', witness%is_direct)
            call json%put(at//'.witness.bytes', witness%bytes)
            if (witness%names >= 0) call json%put(at//'.witness.names', witness%names)
            call json%put(at//'.witness.page_cache_fraction', witness%page_cache_fraction)
            call json%put(at//'.witness.unsynced_fraction', witness%unsynced_fraction)
            call json%put(at//'.witness.other_node_byte_fraction', &
                witness%other_node_byte_fraction)
        end associate
    end subroutine put_repetition

    !> Puts how the figures of nodes differ; null where none has any.
    subroutine put_of_nodes(json, at, of_nodes, nodes)
        type(json_writer), intent(inout) :: json
        character(*), intent(in) :: at
        type(node_spread), intent(in) :: of_nodes(:)
        type(node_list), intent(in) :: nodes

        character(:), allocatable :: name
        integer :: i

        ! Names have no bytes, and their phases no comparison.
        if (all(of_nodes(2:)%nodes == 0)) call json%put_null(at)
        if (all(of_nodes(2:)%nodes == 0)) return
        do i = 1, size(of_nodes)
            associate (spread => of_nodes(i))
                if (spread%nodes == 0) cycle
                name = at//'.'//trim(node_figure_names(i))
                call json%put(name//'.nodes', spread%nodes)
                if (.not. allocated(spread%each)) call json%put_null(name//'.each')
                if (allocated(spread%each)) call json%put_numbers(name//'.each', spread%each)
                call json%put_numbers(name//'.quantiles', spread%quantiles)
                call json%put(name//'.least', nodes%hosts(spread%least))
                call json%put(name//'.most', nodes%hosts(spread%most))
            end associate
        end do
    end subroutine put_of_nodes

    !> Puts seconds over ranks.
    subroutine put_times(json, at, seconds, nodes)
        type(json_writer), intent(inout) :: json
        character(*), intent(in) :: at
        type(phase_time), intent(in) :: seconds
        type(node_list), intent(in) :: nodes

        call json%put(at//'.min', seconds%min)
        call json%put(at//'.mean', seconds%mean)
        call json%put(at//'.max', seconds%max)
        call json%put(at//'.slowest_rank', seconds%slowest_rank)
        call json%put(at//'.slowest_host', nodes%host_of(seconds%slowest_rank))
    end subroutine put_times

end module benchio_result_json
