!> The rounds of a run: in each, every backend once, in an order that rotates.
!>
!> Contention then meets all backends alike, so the ratio of two in one round means something.
module benchio_runner
    use, intrinsic :: iso_fortran_env, only: error_unit, real64
    use mpi_f08, only: MPI_Allreduce, MPI_INTEGER, MPI_MAX
    use benchio_clock, only: now
    use benchio_failure, only: agree, exit_io, exit_time_limit, failure
    use benchio_measurement, only: phase_total, phases, reduce_times, repetition, timed_write
    use benchio_pattern, only: fill, pattern_key
    use benchio_posix, only: interrupted, remove_file
    use benchio_readback, only: check_written, timed_reading
    use benchio_registry, only: backend_item
    use benchio_target, only: refuse_existing
    use benchio_team, only: case_index, new_job, team
    use benchio_text, only: decimal
    implicit none (type, external)
    private

    public :: run_rounds

contains

    !> Collective: all rounds, or up to the first failure or the time limit. Files are removed
    !> unless they are to be kept; one that failed always is, but not those that other backends made
    !> in a last round before it.
    subroutine run_rounds(group, methods, records, completed, error)
        type(team), intent(inout) :: group
        type(backend_item), intent(inout) :: methods(:)
        type(repetition), allocatable, intent(out) :: records(:, :)     !! (case, round), rank 0
        integer, intent(out) :: completed                               !! rounds
        type(failure), intent(inout) :: error

        real(real64), allocatable, target :: storage(:)
        real(real64) :: start
        integer :: i, position, round, last_round

        start = now()
        completed = 0
        last_round = group%choice%warmup + group%choice%repeats
        allocate (records(size(methods)*size(group%choice%operations), last_round))
        call group%allocate_storage(storage, error)
        if (error%failed()) return

        do round = 1, last_round
            do position = 1, size(methods)
                i = 1 + mod(round + position - 2, size(methods))
                call run_backend(group, methods, i, round, storage, records(:, round), error)
                if (error%failed()) return
                records(i::size(methods), round)%position = position
            end do
            records(:, round)%round = round
            records(:, round)%warmup = round <= group%choice%warmup
            completed = round
            if (group%rank == 0) call report_progress(group, methods, records(:, round), last_round)
            if (round == last_round) exit
            if (is_time_up(group, start)) then
                call error%set(exit_time_limit, 'time limit', group%place%path, decimal(round) &
                    //' of '//decimal(last_round)//' rounds done')
                call agree(error, group%comm)
                return
            end if
        end do
    end subroutine run_rounds

    !> Collective: one backend's write, its reading, verification and removal.
    subroutine run_backend(group, methods, i, round, storage, records, error)
        type(team), intent(inout) :: group
        type(backend_item), intent(inout) :: methods(:)
        integer, intent(in) :: i, round
        real(real64), intent(inout), contiguous, target :: storage(:)
        type(repetition), intent(inout) :: records(:)           !! of each case
        type(failure), intent(inout) :: error

        real(real64), pointer, contiguous :: field(:, :, :)
        real(real64) :: seconds(phases)
        character(:), allocatable :: message, path
        integer :: last_round, write_case, read_case
        logical :: keep, ours, verify

        last_round = group%choice%warmup + group%choice%repeats
        verify = group%choice%verify == 'all' &
            .or. (group%choice%verify == 'last' .and. round == last_round)
        keep = group%choice%keep .and. round == last_round
        write_case = case_index(group%choice, 'write', i)
        read_case = case_index(group%choice, 'read', i)
        path = group%path_of(methods(i)%it, group%own%file)

        associate (block => group%own%block)
            field(1:block%extent(1) + 2*block%halo, 1:block%extent(2) + 2*block%halo, &
                1:block%extent(3) + 2*block%halo) => storage
            call fill(field, block, pattern_key(group%choice%seed, round, group%own%file))
            group%work = new_job(group, methods(i)%it, played=.false.)
            ! With the directory held, a file that is made from now on is ours.
            if (group%removes) call refuse_existing(path, error)
            call agree(error, group%comm)
            ours = .not. error%failed()
            if (ours) then
                call timed_write(methods(i)%it, group%work, field, group%comm, seconds, error)
            end if
            call agree(error, group%comm)
            if (write_case > 0 .and. .not. error%failed()) then
                call reduce_times(seconds, block%bytes(), group%instance(group%rank), &
                    group%choice%instances, group%comm, records(write_case))
            end if
        end associate

        if (.not. error%failed()) then
            call group%observe(methods(i)%it, i, error)
            if (read_case > 0) then
                call timed_reading(group, methods(i)%it, i, round, storage, verify, &
                    records(read_case), error)
            else if (verify) then
                call check_written(group, methods(i)%it, round, storage, error)
            end if
        end if
        records(i::size(methods))%verified = verify .and. .not. error%failed()

        if (group%removes .and. ours .and. (error%failed() .or. .not. keep)) then
            call remove_file(path, message)
            ! A create that failed may have made none.
            if (.not. error%failed() .and. message /= '') call error%set(exit_io, 'unlink', path, &
                message)
        end if
        call agree(error, group%comm)
    end subroutine run_backend

    !> Collective: whether any rank knows a reason to begin no other round.
    logical function is_time_up(group, start)
        type(team), intent(in) :: group
        real(real64), intent(in) :: start

        real(real64) :: elapsed
        integer :: mine, any_rank

        elapsed = now() - start
        mine = merge(1, 0, interrupted())
        if (group%choice%time_limit > 0 .and. elapsed >= group%choice%time_limit) mine = 1
        call MPI_Allreduce(mine, any_rank, 1, MPI_INTEGER, MPI_MAX, group%comm)
        is_time_up = any_rank > 0
    end function is_time_up

    !> One line a round on standard error. Seconds, since a rate may still want its verification.
    subroutine report_progress(group, methods, records, last_round)
        type(team), intent(in) :: group
        type(backend_item), intent(in) :: methods(:)
        type(repetition), intent(in) :: records(:)
        integer, intent(in) :: last_round

        integer :: i, operation

        write (error_unit, '(a)', advance='no') 'benchio: round '//decimal(records(1)%round)//'/' &
            //decimal(last_round)//trim(merge(' (warm-up)', '          ', records(1)%warmup))
        do operation = 1, size(group%choice%operations)
            write (error_unit, '(a)', advance='no') '  '//trim(group%choice%operations(operation))
            do i = 1, size(methods)
                write (error_unit, '(2x,a,f9.3,a)', advance='no') methods(i)%it%name, &
                    records((operation - 1)*size(methods) + i)%times(phase_total)%max, ' s'
            end do
        end do
        write (error_unit, '()')
    end subroutine report_progress

end module benchio_runner
