!> Reading what was written: timed, or only to verify it.
module benchio_readback
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use mpi_f08, only: MPI_Allreduce, MPI_Comm, MPI_Comm_rank, MPI_Comm_free, &
        MPI_Comm_split_type, MPI_COMM_TYPE_SHARED, MPI_INFO_NULL, MPI_MAX, MPI_REAL8
    use benchio_backend, only: backend
    use benchio_decomposition, only: decomposition
    use benchio_failure, only: agree, exit_io, exit_verification, failure
    use benchio_layout, only: readers_of_others, role
    use benchio_measurement, only: phases, reduce_times, repetition, timed_read
    use benchio_pattern, only: count_mismatches, halo_intact, pattern_key, poison
    use benchio_posix, only: drop_cache, file_size, resident_fraction
    use benchio_team, only: new_job, team
    use benchio_text, only: decimal
    implicit none (type, external)
    private

    public :: check_written, timed_reading

contains

    !> Collective: every rank reads its own block back, through new handles, and compares every bit.
    subroutine check_written(group, method, round, storage, error)
        type(team), intent(inout) :: group
        class(backend), intent(inout) :: method
        integer, intent(in) :: round
        real(real64), intent(inout), contiguous, target :: storage(:)
        type(failure), intent(inout) :: error

        real(real64) :: ignored(phases)

        group%work = new_job(group, method, played=.false.)
        call read_role(group, method, group%own, round, storage, .true., ignored, error)
    end subroutine check_written

    !> Collective: every rank reads the block of another, if possible of one on another node, after
    !> the kernel was asked to forget the files.
    subroutine timed_reading(group, method, i, round, storage, verify, record, error)
        type(team), intent(inout) :: group
        class(backend), intent(inout) :: method
        integer, intent(in) :: i                            !! number of the backend
        integer, intent(in) :: round
        real(real64), intent(inout), contiguous, target :: storage(:)
        logical, intent(in) :: verify
        type(repetition), intent(inout) :: record
        type(failure), intent(inout) :: error

        real(real64) :: seconds(phases)

        call forget_files(group, method, i, error)
        if (error%failed()) return
        group%work = new_job(group, method, played=.true.)
        call read_role(group, method, group%played, round, storage, verify, seconds, error)
        group%seen(i)%collective_read = method%observed_collective()
        if (error%failed()) return
        call reduce_times(seconds, group%played%block%bytes(), &
            group%instance(group%rank + group%shift), group%choice%instances, group%comm, record)
    end subroutine timed_reading

    !> Collective: reads the block of a role. The size comes first: a read past the end of a short
    !> file reports success.
    subroutine read_role(group, method, part, round, storage, verify, seconds, error)
        type(team), intent(inout) :: group
        class(backend), intent(inout) :: method
        type(role), intent(in) :: part
        integer, intent(in) :: round
        real(real64), intent(inout), contiguous, target :: storage(:)
        logical, intent(in) :: verify
        real(real64), intent(out) :: seconds(phases)
        type(failure), intent(inout) :: error

        real(real64), pointer, contiguous :: field(:, :, :)

        seconds = 0
        call check_size(group, part, error)
        if (error%failed()) return
        associate (block => part%block)
            field(1:block%extent(1) + 2*block%halo, 1:block%extent(2) + 2*block%halo, &
                1:block%extent(3) + 2*block%halo) => storage
            call poison(field)
            call timed_read(method, group%work, field, group%comm, seconds, error)
            if (verify .and. .not. error%failed()) then
                call compare(group%work%path, block, field, pattern_key(group%choice%seed, round, &
                    part%file), error)
            end if
        end associate
        call agree(error, group%comm)
    end subroutine read_role

    !> Whether the field holds the pattern and its halo what it held before.
    subroutine compare(path, block, field, key, error)
        character(*), intent(in) :: path
        type(decomposition), intent(in) :: block
        real(real64), intent(in), contiguous :: field(:, :, :)
        integer(int64), intent(in) :: key
        type(failure), intent(inout) :: error

        integer(int64) :: mismatches, first(3)

        call count_mismatches(field, block, key, mismatches, first)
        if (mismatches > 0) then
            call error%set(exit_verification, 'verify', path, decimal(mismatches)//' of ' &
                //decimal(block%elements())//' elements differ from what was written, the first' &
                //' at x,y,z = '//decimal(first(1))//','//decimal(first(2))//',' &
                //decimal(first(3)))
        else if (.not. halo_intact(field, block)) then
            call error%set(exit_verification, 'verify', path, 'the halo was overwritten')
        end if
    end subroutine compare

    !> Collective: the lowest rank of each file looks at its size.
    subroutine check_size(group, part, error)
        type(team), intent(in) :: group
        type(role), intent(in) :: part
        type(failure), intent(inout) :: error

        character(:), allocatable :: message
        integer(int64) :: bytes
        integer :: rank

        call MPI_Comm_rank(group%work%sharers%ranks, rank)
        if (rank == 0) then
            call file_size(group%work%path, bytes, message)
            if (message /= '') then
                call error%set(exit_io, 'stat', group%work%path, message)
            else if (bytes < part%block%global_bytes()) then
                call error%set(exit_io, 'stat', group%work%path, 'file has '//decimal(bytes) &
                    //' bytes, '//decimal(part%block%global_bytes()) &
                    //' bytes of data were written')
            end if
        end if
        call agree(error, group%comm)
    end subroutine check_size

    !> Collective: drops the files from the page caches, and sees what stayed.
    !>
    !> One rank of each file on each node speaks for the node: of the writers to drop, as they
    !> filled the caches, and of the readers to look.
    subroutine forget_files(group, method, i, error)
        type(team), intent(inout) :: group
        class(backend), intent(in) :: method
        integer, intent(in) :: i
        type(failure), intent(inout) :: error

        character(:), allocatable :: message
        real(real64) :: resident, largest

        ! Dropping writes what is dirty first, and may hang as a write may.
        call group%work%dog%watch('posix_fadvise')
        if (speaks(group%own_file%ranks)) then
            call drop_cache(group%path_of(method, group%own%file), message)
            if (message /= '') call error%set(exit_io, 'posix_fadvise', &
                group%path_of(method, group%own%file), message)
        end if
        if (error%failed()) call group%work%dog%watch_failed(error)
        call agree(error, group%comm)
        call group%work%dog%rest()
        if (error%failed()) return

        resident = 0
        if (speaks(group%played_file%ranks)) then
            call resident_fraction(group%path_of(method, group%played%file), resident, message)
            if (message /= '') call error%set(exit_io, 'mincore', &
                group%path_of(method, group%played%file), message)
        end if
        call agree(error, group%comm)
        if (error%failed()) return
        call MPI_Allreduce(resident, largest, 1, MPI_REAL8, MPI_MAX, group%comm)
        group%cache(i)%resident = max(group%cache(i)%resident, largest)
        group%cache(i)%other_node = real(readers_of_others(group%node, group%shift), real64) &
            /group%ranks
    end subroutine forget_files

    !> Collective: whether this rank is the lowest of a communicator on its node.
    logical function speaks(comm)
        type(MPI_Comm), intent(in) :: comm

        type(MPI_Comm) :: on_node
        integer :: rank

        call MPI_Comm_rank(comm, rank)
        call MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, on_node)
        call MPI_Comm_rank(on_node, rank)
        call MPI_Comm_free(on_node)
        speaks = rank == 0
    end function speaks

end module benchio_readback
