!> The rounds of a run: in each, every backend once, in an order that rotates.
!>
!> Contention then meets all backends alike, so the ratio of two in one round means something.
module benchio_runner
    use, intrinsic :: iso_fortran_env, only: error_unit, int64, real64
    use mpi_f08, only: MPI_Comm, MPI_Comm_rank
    use benchio_decomposition, only: decomposition
    use benchio_failure, only: agree, exit_internal, exit_io, failure
    use benchio_measurement, only: measure_write, phase_total, phases, reduce_times, repetition, &
        verify_file
    use benchio_options, only: options
    use benchio_pattern, only: fill, pattern_key
    use benchio_posix, only: remove_file
    use benchio_registry, only: backend_item
    use benchio_text, only: decimal
    use benchio_watchdog, only: watchdog
    implicit none (type, external)
    private

    public :: run_rounds

contains

    !> Collective: all rounds, or up to the first failure. Files are removed unless they are to be
    !> kept; a failed round leaves none.
    subroutine run_rounds(choice, methods, paths, block, comm, records, error)
        type(options), intent(in) :: choice
        type(backend_item), intent(inout) :: methods(:)
        character(*), intent(in) :: paths(:)                        !! file of each backend
        type(decomposition), intent(in) :: block
        type(MPI_Comm), intent(in) :: comm
        type(repetition), allocatable, intent(out) :: records(:, :) !! (backend, round), rank 0
        type(failure), intent(inout) :: error

        real(real64), allocatable :: field(:, :, :)
        integer(int64) :: key
        integer :: i, position, rank, round, last_round
        logical :: verify

        call MPI_Comm_rank(comm, rank)
        last_round = choice%warmup + choice%repeats
        allocate (records(size(methods), last_round))
        call allocate_field(block, field, error)
        call agree(error, comm)

        do round = 1, last_round
            if (error%failed()) exit
            key = pattern_key(choice%seed, round)
            call fill(field, block, key)
            verify = choice%verify == 'all' .or. (choice%verify == 'last' .and. round == last_round)
            do position = 1, size(methods)
                i = 1 + mod(round + position - 2, size(methods))
                records(i, round)%round = round
                records(i, round)%position = position
                records(i, round)%warmup = round <= choice%warmup
                call run_repetition(choice, methods(i), trim(paths(i)), block, field, key, verify, &
                    choice%keep .and. round == last_round, comm, records(i, round), error)
                if (error%failed()) exit
            end do
            if (rank == 0 .and. .not. error%failed()) then
                call report_progress(methods, records(:, round), last_round)
            end if
        end do
    end subroutine run_rounds

    !> Collective: one backend's write, read-back and removal.
    subroutine run_repetition(choice, method, path, block, field, key, verify, keep, comm, &
        record, error)
        type(options), intent(in) :: choice
        type(backend_item), intent(inout) :: method
        character(*), intent(in) :: path
        type(decomposition), intent(in) :: block
        real(real64), intent(inout), contiguous, target :: field(:, :, :)
        integer(int64), intent(in) :: key
        logical, intent(in) :: verify, keep
        type(MPI_Comm), intent(in) :: comm
        type(repetition), intent(inout) :: record
        type(failure), intent(inout) :: error

        real(real64) :: seconds(phases)
        character(:), allocatable :: message
        type(watchdog) :: dog
        integer :: rank
        logical :: created

        call MPI_Comm_rank(comm, rank)
        dog = watchdog(choice%phase_limit, rank, path)
        call measure_write(method%it, path, block, field, choice%sync == 'data', dog, comm, &
            seconds, created, error)
        if (.not. error%failed()) call reduce_times(seconds, block%global_bytes(), comm, record)
        if (verify .and. .not. error%failed()) then
            call verify_file(method%it, path, block, field, key, dog, comm, error)
            record%verified = .not. error%failed()
        end if

        ! What benchio has not made, it does not remove.
        if (rank == 0 .and. created .and. (error%failed() .or. .not. keep)) then
            call remove_file(path, message)
            if (message /= '') call error%set(exit_io, 'unlink', path, message)
        end if
        call agree(error, comm)
    end subroutine run_repetition

    subroutine allocate_field(block, field, error)
        type(decomposition), intent(in) :: block
        real(real64), allocatable, intent(out) :: field(:, :, :)
        type(failure), intent(inout) :: error

        integer(int64) :: extent(3)
        integer :: code

        extent = block%extent + 2*block%halo
        allocate (field(extent(1), extent(2), extent(3)), stat=code)
        if (code /= 0) then
            call error%set(exit_internal, 'allocate', '', 'no memory for the local array of ' &
                //decimal(block%field_bytes())//' bytes')
        end if
    end subroutine allocate_field

    !> One line a round on standard error. Seconds, since a rate may still want its verification.
    subroutine report_progress(methods, records, last_round)
        type(backend_item), intent(in) :: methods(:)
        type(repetition), intent(in) :: records(:)
        integer, intent(in) :: last_round

        integer :: i

        write (error_unit, '(a)', advance='no') 'benchio: round '//decimal(records(1)%round)//'/' &
            //decimal(last_round)//trim(merge(' (warm-up)', '          ', records(1)%warmup))
        do i = 1, size(methods)
            write (error_unit, '(2x,a,f9.3,a)', advance='no') methods(i)%it%name, &
                records(i)%times(phase_total)%max, ' s'
        end do
        write (error_unit, '()')
    end subroutine report_progress

end module benchio_runner
