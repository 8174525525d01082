!> One write or read of one file by one backend, phase by phase, under the clock and the watchdog.
!>
!> Ranks that share a file agree after each phase that it succeeded on all of them, and enter the
!> next one together. These agreements are inside total and in no phase; the summary of the times
!> names them as `between`.
module benchio_file_task
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use mpi_f08, only: MPI_Allreduce, MPI_Barrier, MPI_Bcast, MPI_CHARACTER, MPI_Comm, &
        MPI_Comm_rank, MPI_COMM_WORLD, MPI_INTEGER, MPI_MIN
    use benchio_backend, only: backend
    use benchio_failure, only: agree, exit_io, failure
    use benchio_file_parts, only: file_parts
    use benchio_gathered, only: new_gathered
    use benchio_ownership, only: file_share
    use benchio_phases, only: absent, part_gather, part_pack, phase_close, phase_define, &
        phase_flush, phase_names, phase_open, phase_read, phase_stable, phase_sync, phase_total, &
        phase_unlink, phase_write, stopwatch
    use benchio_posix, only: now, remove_family
    use benchio_settings, only: io_settings
    use benchio_watchdog, only: watchdog
    implicit none (type, external)
    private

    public :: agree_watched, begin_operation, begin_phase, diagnose_write, end_operation
    public :: end_phase, end_span, find_parts, new_file, timed_move, timed_sync, timed_unlink

    !> What is to be done with which file, by this rank.
    type, public :: file_task
        class(backend), pointer :: method => null()
        character(:), allocatable :: path
        integer(int64) :: key = 0                   !! of the pattern that the file has
        type(file_parts) :: parts                   !! that the file is, once it is written
        character(:), allocatable :: companions     !! follows the path in names of more files; ''
        logical :: writes = .false.                 !! it, or reads what was written
        type(file_share) :: share
        type(io_settings) :: settings
        type(watchdog) :: watchdog
        type(stopwatch) :: times
        type(MPI_Comm) :: comm                      !! all ranks: they start together
        type(MPI_Comm) :: together                  !! the ranks that agree after each phase
    end type file_task

contains

    !> Makes a file of the task's library, which is not open yet.
    subroutine new_file(task, file)
        type(file_task), intent(in) :: task
        class(backend), allocatable, intent(out) :: file

        if (task%share%is_gathered) then
            allocate (file, source=new_gathered(task%method))
        else
            allocate (file, mold=task%method)
        end if
    end subroutine new_file

    !> Starts the clock of an operation once all ranks are there. Collective.
    subroutine begin_operation(task)
        type(file_task), intent(inout) :: task

        call task%watchdog%watch('wait for all ranks')
        call MPI_Barrier(task%comm)
        task%times%start = now()
    end subroutine begin_operation

    subroutine begin_phase(task, phase)
        type(file_task), intent(inout) :: task
        integer, intent(in) :: phase

        call task%watchdog%watch(trim(phase_names(phase)))
        task%times%zero(phase) = task%times%start
        task%times%begun(phase) = now()
    end subroutine begin_phase

    !> Notes the end of a phase and agrees on its success. Collective over `comm`.
    subroutine end_phase(task, phase, takes_part, comm, error)
        type(file_task), intent(inout) :: task
        integer, intent(in) :: phase
        logical, intent(in) :: takes_part           !! else this rank has only waited
        type(MPI_Comm), intent(in) :: comm
        type(failure), intent(inout) :: error

        if (takes_part) then
            task%times%ended(phase) = now()
        else
            task%times%begun(phase) = absent
        end if
        call agree_watched(task%watchdog, comm, error)
    end subroutine end_phase

    !> Ends an operation that is one phase. Collective over all ranks.
    subroutine end_operation(task, phase, takes_part, error)
        type(file_task), intent(inout) :: task
        integer, intent(in) :: phase
        logical, intent(in) :: takes_part           !! else this rank has only waited
        type(failure), intent(inout) :: error

        call end_phase(task, phase, takes_part, task%comm, error)
        task%times%agreed(phase) = now()
    end subroutine end_operation

    !> Makes a span of two phases on which all ranks have agreed: from the begin of the first to the
    !> end of the later one.
    subroutine end_span(task, span, first, last)
        type(file_task), intent(inout) :: task
        integer, intent(in) :: span, first, last

        associate (times => task%times)
            times%agreed(span) = now()
            times%zero(span) = times%zero(first)
            times%begun(span) = times%begun(first)
            times%ended(span) = max(times%ended(first), times%ended(last))
        end associate
    end subroutine end_span

    !> Agrees on success, and on whether the time of the run is over. Collective over `comm`. A rank
    !> may wait for one that hangs, until then and after that, before the next phase.
    subroutine agree_watched(guard, comm, error)
        type(watchdog), intent(inout) :: guard
        type(MPI_Comm), intent(in) :: comm
        type(failure), intent(inout) :: error

        if (error%failed()) then
            call guard%watch_failed(error, is_agreed=.false.)
        else
            call guard%note_end(error)
        end if
        call agree(error, comm)
        call guard%watch('between two phases')
        if (error%failed()) call guard%watch_failed(error, is_agreed=.true.)
    end subroutine agree_watched

    !> Adds to an agreed I/O error of a write what small writes meet. Collective over all ranks.
    !> Only the rank that the error names tries them. If it hangs, its watchdog says the error.
    subroutine diagnose_write(task, error)
        type(file_task), intent(inout) :: task
        type(failure), intent(inout) :: error

        integer, parameter :: text_size = 4096
        character(text_size) :: text
        integer :: rank, rank_of_all, root

        if (.not. task%writes .or. error%status /= exit_io) return
        call MPI_Comm_rank(MPI_COMM_WORLD, rank_of_all)
        if (error%rank == rank_of_all) call task%watchdog%diagnose(error)
        call MPI_Comm_rank(task%comm, rank)
        call MPI_Allreduce(merge(rank, huge(rank), error%rank == rank_of_all), root, 1, &
            MPI_INTEGER, MPI_MIN, task%comm)
        text = error%message
        call MPI_Bcast(text, text_size, MPI_CHARACTER, root, task%comm)
        error%message = trim(text)
    end subroutine diagnose_write

    !> Writes this rank's block, or reads it through new handles, from open to close. Collective
    !> over all ranks: those of other files may take longer, or hang.
    subroutine timed_move(file, task, field, error)
        class(backend), intent(inout) :: file     !! not open yet
        type(file_task), intent(inout) :: task
        real(real64), intent(inout), contiguous, target :: field(:, :, :)   !! with halo
        type(failure), intent(inout) :: error

        integer(int64) :: elements

        call task%watchdog%watch('make room for what is packed')
        elements = 0
        if (task%share%opens) elements = file%packed_elements(task%share%block, task%settings)
        call task%method%reserve(elements, task%path, error)
        file%buffer = task%method%buffer
        call agree_watched(task%watchdog, task%comm, error)
        if (error%failed()) return
        call begin_operation(task)
        call move_in_phases(file, task, field, error)
        call task%watchdog%watch('wait for the other files')
        call agree_watched(task%watchdog, task%comm, error)
        call end_span(task, phase_total, phase_open, phase_close)
    end subroutine timed_move

    !> Goes from open to close, or to the first phase that fails. Collective over the file's ranks.
    subroutine move_in_phases(file, task, field, error)
        class(backend), intent(inout) :: file     !! not open yet
        type(file_task), intent(inout) :: task
        real(real64), intent(inout), contiguous, target :: field(:, :, :)
        type(failure), intent(inout) :: error

        integer :: phase

        call begin_phase(task, phase_open)
        call file%open(task%path, task%share%block, task%share%ranks, task%settings, task%writes, &
            error)
        call end_phase_of_file(phase_open)
        if (error%failed()) return

        call begin_phase(task, phase_define)
        call file%define(error)
        call file%select(task%share%block, error)
        call end_phase_of_file(phase_define)
        if (error%failed()) return

        phase = merge(phase_write, phase_read, task%writes)
        call begin_phase(task, phase)
        call file%move(task%writes, field, error)
        task%times%part_seconds([part_gather, part_pack]) = [file%gather_seconds, &
            file%pack_seconds]
        call end_phase_of_file(phase)
        if (error%failed()) return

        if (task%writes .and. task%settings%flush) then
            call begin_phase(task, phase_flush)
            call file%flush(error)
            call end_phase_of_file(phase_flush)
            if (error%failed()) return
        end if

        ! A library that could not write tries again in its close, and hangs or crashes: after a
        ! failure the file stays open.
        call begin_phase(task, phase_close)
        call file%close(error)
        call end_phase_of_file(phase_close)

    contains

        !> A rank that has not opened the file has only waited for those that have.
        subroutine end_phase_of_file(phase)
            integer, intent(in) :: phase

            call end_phase(task, phase, task%share%opens, task%together, error)
        end subroutine end_phase_of_file

    end subroutine move_in_phases

    !> Finds the files that the library has made of a closed one. Collective over all ranks.
    subroutine find_parts(task, error)
        type(file_task), intent(inout) :: task
        type(failure), intent(inout) :: error

        if (task%companions == '') return
        call task%watchdog%watch('look for the subfiles')
        call task%method%find_parts(task%path, task%settings, task%share%ranks, task%parts, error)
        call agree_watched(task%watchdog, task%comm, error)
    end subroutine find_parts

    !> Forces to stable storage what nodes still hold, by one rank of every node that has written.
    !> Collective over all ranks. The clock of the write runs on, while the library's
    !> further files are looked for and a descriptor is opened. No library could do either earlier:
    !> both are `between`.
    subroutine timed_sync(task, error)
        type(file_task), intent(inout) :: task
        type(failure), intent(inout) :: error

        call find_parts(task, error)
        if (error%failed()) return
        call task%watchdog%watch('open to sync')
        if (task%share%syncs) call task%parts%open(error, writes=.true.)
        call begin_phase(task, phase_sync)
        if (task%share%syncs .and. .not. error%failed()) call task%parts%sync(error)
        call end_phase(task, phase_sync, task%share%syncs, task%comm, error)
        call end_span(task, phase_stable, phase_total, phase_sync)
        if (task%share%syncs) call task%parts%close()
    end subroutine timed_sync

    !> Removes each file, by the first of its ranks. Collective over all ranks.
    subroutine timed_unlink(task, error)
        type(file_task), intent(inout) :: task
        type(failure), intent(inout) :: error

        character(:), allocatable :: message
        logical :: unlinks

        unlinks = task%share%position == 0
        call begin_operation(task)
        call begin_phase(task, phase_unlink)
        if (unlinks) then
            call remove_family(task%path, task%companions, message)
            if (message /= '') call error%set(exit_io, 'unlink', task%path, message)
        end if
        call end_operation(task, phase_unlink, unlinks, error)
    end subroutine timed_unlink

end module benchio_file_task
