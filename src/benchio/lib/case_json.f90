!> A case of benchio.result/1: one operation of one backend.
module benchio_case_json
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use benchio_json_writer, only: json_writer
    use benchio_measurement, only: phase_define, phase_gather, phase_names, phase_pack, &
        phase_read, phase_sync, phase_write, phases, rate_names, rate_stable, rates, repetition
    use benchio_result, only: cache_suspect, run_result, summary, verified
    use benchio_settings, only: hint
    use benchio_statistics, only: statistics
    use benchio_striping, only: striping, unset
    use benchio_team, only: case_index
    implicit none (type, external)
    private

    public :: add_case

contains

    !> The next element of the array of cases.
    subroutine add_case(json, run, operation, backend)
        type(json_writer), intent(inout) :: json
        type(run_result), intent(in) :: run
        character(*), intent(in) :: operation
        integer, intent(in) :: backend

        integer :: i, number, round

        number = case_index(run%group%choice, operation, backend)
        call json%open_object()
        call json%add(operation, 'operation')
        call json%add(trim(run%group%choice%backends(backend)), 'backend')
        call add_settings(json, run, operation, backend)
        if (operation == 'read') then
            call add_cache(json, run, backend)
        else
            call json%null('cache')
        end if
        call json%open_array('repetitions')
        do round = 1, run%completed
            call add_repetition(json, run, operation, run%records(number, round))
        end do
        call json%close_array()
        if (verified(run)) then
            call json%open_object('summary')
            do i = 1, rates
                if (operation == 'read' .and. i == rate_stable) cycle
                call add_statistics(json, trim(rate_names(i)), summary(run, number, i))
            end do
            call json%close_object()
        else
            call json%null('summary')
        end if
        call json%close_object()
    end subroutine add_case

    !> Asked for, repeated by the library, and seen to be so.
    subroutine add_settings(json, run, operation, backend)
        type(json_writer), intent(inout) :: json
        type(run_result), intent(in) :: run
        character(*), intent(in) :: operation
        integer, intent(in) :: backend

        character(:), allocatable :: collective

        associate (choice => run%group%choice, seen => run%group%seen(backend))
            call json%open_object('hints')
            call add_hints(json, choice%settings%hints, 'requested')
            if (size(seen%hints) > 0) then
                call add_hints(json, seen%hints, 'echoed')
            else
                call json%null('echoed')
            end if
            call json%null('observed')
            call json%close_object()

            call json%open_object('collective')
            call json%add(choice%settings%collective, 'requested')
            call json%null('echoed')
            collective = seen%collective
            if (operation == 'read') collective = seen%collective_read
            if (collective == '') then
                call json%null('observed')
            else
                call json%add(collective, 'observed')
            end if
            call json%close_object()

            call json%open_object('striping')
            call add_stripes(json, choice%stripes, choice%stripes%is_set(), 'requested')
            call json%null('echoed')
            call add_stripes(json, seen%stripes, seen%striped, 'observed')
            call json%close_object()
        end associate
    end subroutine add_settings

    subroutine add_hints(json, hints, key)
        type(json_writer), intent(inout) :: json
        type(hint), intent(in) :: hints(:)
        character(*), intent(in) :: key

        integer :: i

        call json%open_object(key)
        do i = 1, size(hints)
            call json%add(hints(i)%value, hints(i)%key)
        end do
        call json%close_object()
    end subroutine add_hints

    subroutine add_stripes(json, stripes, known, key)
        type(json_writer), intent(inout) :: json
        type(striping), intent(in) :: stripes
        logical, intent(in) :: known
        character(*), intent(in) :: key

        if (.not. known) then
            call json%null(key)
            return
        end if
        call json%open_object(key)
        call add_if_set(stripes%count, 'count')
        call add_if_set(stripes%size, 'size')
        call add_if_set(stripes%offset, 'offset')
        call json%close_object()

    contains

        subroutine add_if_set(number, name)
            integer(int64), intent(in) :: number
            character(*), intent(in) :: name

            if (number == unset) then
                call json%null(name)
            else
                call json%add(number, name)
            end if
        end subroutine add_if_set

    end subroutine add_stripes

    subroutine add_cache(json, run, backend)
        type(json_writer), intent(inout) :: json
        type(run_result), intent(in) :: run
        integer, intent(in) :: backend

        associate (group => run%group, cache => run%group%cache(backend))
            call json%open_object('cache')
            call json%add(group%shift, 'shift')
            call json%add(cache%other_node, 'other_node_fraction')
            call json%add(cache%resident, 'resident_fraction')
            call json%add(cache_suspect(run, backend), 'suspect')
            call json%close_object()
        end associate
    end subroutine add_cache

    subroutine add_repetition(json, run, operation, record)
        type(json_writer), intent(inout) :: json
        type(run_result), intent(in) :: run
        character(*), intent(in) :: operation
        type(repetition), intent(in) :: record

        integer :: i

        call json%open_object()
        call json%add(record%round, 'round')
        call json%add(record%position, 'position')
        call json%add(record%warmup, 'warmup')
        call json%open_object('phases')
        do i = 1, phases
            if (.not. phase_occurs(run, operation, i, record%times(i)%max)) cycle
            call json%open_object(trim(phase_names(i)))
            call json%add(record%times(i)%min, 'min')
            call json%add(record%times(i)%mean, 'mean')
            call json%add(record%times(i)%max, 'max')
            call json%add(record%times(i)%slowest_rank, 'slowest_rank')
            call json%add(trim(run%host_of_rank(record%times(i)%slowest_rank + 1)), 'slowest_host')
            call json%close_object()
        end do
        call json%close_object()
        if (verified(run)) then
            call json%open_object('rates')
            do i = 1, rates
                if (operation == 'read' .and. i == rate_stable) cycle
                call json%add(record%rates(i), trim(rate_names(i)))
            end do
            call json%close_object()
        else
            call json%null('rates')
        end if
        if (verified(run) .and. run%group%choice%instances > 1) then
            call json%open_array('instances')
            do i = 1, run%group%choice%instances
                call json%add(record%of_instance(i))
            end do
            call json%close_array()
        else
            call json%null('instances')
        end if
        call json%add(trim(merge('passed ', 'skipped', record%verified)), 'verification')
        call json%close_object()
    end subroutine add_repetition

    !> Whether a phase belongs to an operation; packing and gathering only where they took time.
    pure logical function phase_occurs(run, operation, phase, seconds)
        type(run_result), intent(in) :: run
        character(*), intent(in) :: operation
        integer, intent(in) :: phase
        real(real64), intent(in) :: seconds

        select case (phase)
        case (phase_define, phase_write, phase_sync)
            phase_occurs = operation == 'write'
        case (phase_read)
            phase_occurs = operation == 'read'
        case (phase_gather)
            phase_occurs = run%group%choice%files == 'gather'
        case (phase_pack)
            phase_occurs = seconds > 0
        case default
            phase_occurs = .true.
        end select
    end function phase_occurs

    subroutine add_statistics(json, name, of)
        type(json_writer), intent(inout) :: json
        character(*), intent(in) :: name
        type(statistics), intent(in) :: of

        call json%open_object(name)
        call json%add(of%count, 'count')
        call json%add(of%min, 'min')
        call json%add(of%q1, 'q1')
        call json%add(of%median, 'median')
        call json%add(of%q3, 'q3')
        call json%add(of%max, 'max')
        call json%add(of%mean, 'mean')
        call json%add(of%cov, 'cov')
        call json%close_object()
    end subroutine add_statistics

end module benchio_case_json
