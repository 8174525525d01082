!> The witness: someone else confirms every byte that a library has written.
!>
!> It shares nothing with the writer. Not the decomposition: it takes contiguous slices of the file,
!> not blocks. Not the library: it reads the bytes where they are in the file, by pread; only where
!> they are in no one run, as in chunks, it has to read through the library, and says so. Not the
!> node, if there are several. And not the page cache: the pages are dropped first, and the file is
!> opened with O_DIRECT where the filesystem allows that; else the witness says which part of the
!> bytes was still in memory.
module benchio_witness
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use mpi_f08, only: MPI_Allreduce, MPI_Barrier, MPI_Bcast, MPI_Comm, MPI_IN_PLACE, &
        MPI_INT64_T, MPI_INTEGER, MPI_LAND, MPI_LOGICAL, MPI_MIN, MPI_SUM
    use benchio_backend, only: backend, open_file, placement
    use benchio_decomposition, only: decomposition, element_bytes, new_decomposition
    use benchio_failure, only: agree, exit_internal, exit_io, exit_verification, failure
    use benchio_file_parts, only: file_parts
    use benchio_layout, only: file_share, layout
    use benchio_pattern, only: differences, poison
    use benchio_file_task, only: agree_watched, diagnose_write, file_task
    use benchio_text, only: decimal
    implicit none (type, external)
    private

    public :: check_size, confirm_bytes, difference_of, drop_pages, fraction_in_memory, &
        pages_in_memory

    !> Bytes a rank reads at a time.
    integer(int64), parameter :: window_bytes = 8*2_int64**20

    !> What the witness has to say of one round; the same on all ranks.
    type, public :: testimony
        logical :: is_through_library = .false.
        logical :: is_direct = .false.              !! past the page cache, by O_DIRECT
        integer(int64) :: bytes = 0                 !! confirmed, of all files
        integer(int64) :: names = -1                !! confirmed; less than 0: it is about bytes
        real(real64) :: page_cache_fraction = -1    !! of them; less than 0: not known
        real(real64) :: unsynced_fraction = -1      !! of the files, after the sync; < 0: not known
        real(real64) :: other_node_fraction = 0     !! of the ranks: read for another node's rank
    end type testimony

contains

    !> Collective: reads all files and compares every bit with the pattern.
    subroutine confirm_bytes(method, plan, written, task, key, said, error)
        class(backend), intent(in) :: method        !! its file is closed
        type(layout), intent(in) :: plan
        type(file_task), intent(inout) :: written   !! what this rank wrote
        type(file_task), intent(inout) :: task      !! what it reads: its partner's share
        integer(int64), intent(in) :: key           !! of the file that it reads
        type(testimony), intent(inout) :: said
        type(failure), intent(inout) :: error

        type(placement) :: place
        integer(int64) :: confirmed, in_memory
        logical :: is_direct

        call find_place(method, plan, task, place, error)
        if (error%failed()) return
        call drop_pages(plan, written, task, error)
        if (error%failed()) return

        call task%watchdog%watch('witness')
        is_direct = .false.
        confirmed = 0
        if (place%is_contiguous) then
            call read_slice(plan, task, place, key, is_direct, in_memory, confirmed, error)
        else
            in_memory = pages_in_memory(task)
            call read_through_library(method, plan, task, key, confirmed, error)
        end if
        call agree_watched(task%watchdog, plan%comm, error)
        if (error%failed()) return

        said%is_through_library = .not. place%is_contiguous
        call MPI_Allreduce(is_direct, said%is_direct, 1, MPI_LOGICAL, MPI_LAND, plan%comm)
        said%other_node_fraction = plan%other_node_fraction
        call MPI_Allreduce(confirmed, said%bytes, 1, MPI_INT64_T, MPI_SUM, plan%comm)
        said%page_cache_fraction = fraction_in_memory(in_memory, said%bytes, plan%comm)
    end subroutine confirm_bytes

    !> Collective: the first rank of each file looks at its size. A library's read past the end of a
    !> short file reports success.
    subroutine check_size(plan, task, file_bytes, error)
        type(layout), intent(in) :: plan
        type(file_task), intent(inout) :: task
        integer(int64), intent(out) :: file_bytes   !! of all files, header and all
        type(failure), intent(inout) :: error

        character(:), allocatable :: message
        integer(int64) :: bytes, data_bytes
        logical :: is_short

        file_bytes = 0
        if (task%share%position == 0) then
            data_bytes = task%share%block%global_bytes()
            call task%parts%bytes(bytes, message)
            is_short = bytes < data_bytes .and. task%settings%access%deflate == 0
            if (message == '' .and. is_short) message = 'file has '//decimal(bytes) &
                //' bytes, '//decimal(data_bytes)//' bytes of data were written'
            if (message /= '') call error%set(exit_io, 'stat', task%parts%path, message)
            file_bytes = bytes
        end if
        call agree_watched(task%watchdog, plan%comm, error)
        call diagnose_write(task, error)
        if (error%failed()) return
        call MPI_Allreduce(MPI_IN_PLACE, file_bytes, 1, MPI_INT64_T, MPI_SUM, plan%comm)
    end subroutine check_size

    !> Collective: the nodes forget the files' pages, those that wrote them and those that will
    !> read them. What is dirty stays: after a sync that has reached storage there is nothing.
    !>
    !> Readers drop only after every writer's node has counted: a page that another process is just
    !> dropping stays for a moment, and looks as a dirty one does.
    subroutine drop_pages(plan, written, task, error, unsynced)
        type(layout), intent(in) :: plan
        type(file_task), intent(inout) :: written   !! what this rank wrote
        type(file_task), intent(in) :: task         !! what it will read
        type(failure), intent(inout) :: error
        !> Bytes of what it wrote that this rank's node had still to write; -1: not known.
        integer(int64), intent(out), optional :: unsynced

        if (present(unsynced)) unsynced = 0
        ! Dropping writes what is dirty first, and may hang as a write may.
        call written%watchdog%watch('posix_fadvise')
        if (written%share%is_node_leader) call drop(written%parts, unsynced)
        call agree_watched(written%watchdog, plan%comm, error)
        if (error%failed()) return
        if (task%share%is_node_leader .and. task%path /= written%path) call drop(task%parts)
        call agree_watched(written%watchdog, plan%comm, error)

    contains

        subroutine drop(closed, left)
            type(file_parts), intent(in) :: closed
            integer(int64), intent(inout), optional :: left

            character(:), allocatable :: message
            type(file_parts) :: file

            file = closed
            call file%open(message)
            if (message == '') call file%drop_pages(message)
            if (message /= '') call error%set(exit_io, 'posix_fadvise', file%path, message)
            if (message == '' .and. present(left)) left = file%unsynced_bytes()
            call file%close()
        end subroutine drop

    end subroutine drop_pages

    !> Collective: where the data are, as the first rank of each file finds it alone.
    subroutine find_place(method, plan, task, place, error)
        class(backend), intent(in) :: method
        type(layout), intent(in) :: plan
        type(file_task), intent(inout) :: task
        type(placement), intent(out) :: place
        type(failure), intent(inout) :: error

        integer :: runs

        call task%watchdog%watch('look for the data')
        if (task%share%position == 0) then
            call method%locate(task%path, task%settings, place, error)
        end if
        call agree_watched(task%watchdog, plan%comm, error)
        if (error%failed()) return
        call MPI_Bcast(place%is_contiguous, 1, MPI_LOGICAL, 0, task%share%ranks)
        runs = 0
        if (allocated(place%offsets)) runs = size(place%offsets)
        call MPI_Bcast(runs, 1, MPI_INTEGER, 0, task%share%ranks)
        if (.not. allocated(place%offsets)) allocate (place%offsets(runs))
        call MPI_Bcast(place%offsets, runs, MPI_INT64_T, 0, task%share%ranks)
        call MPI_Bcast(place%is_big_endian, 1, MPI_LOGICAL, 0, task%share%ranks)
    end subroutine find_place

    !> Collective: this rank's contiguous slice of the array, as raw bytes.
    subroutine read_slice(plan, task, place, key, is_direct, in_memory, confirmed, error)
        type(layout), intent(in) :: plan
        type(file_task), intent(in) :: task
        type(placement), intent(in) :: place
        integer(int64), intent(in) :: key
        logical, intent(out) :: is_direct
        integer(int64), intent(out) :: in_memory    !! bytes in the page cache; -1: not known
        integer(int64), intent(out) :: confirmed    !! bytes
        type(failure), intent(inout) :: error

        real(real64), allocatable :: values(:)
        character(:), allocatable :: message
        type(file_parts) :: file
        type(differences) :: wrong
        integer(int64) :: at, elements, first, here, last, offset

        is_direct = .false.
        in_memory = 0
        confirmed = 0
        call slice_of(task%share, first, last)
        file = task%parts
        at = first
        do while (at < last)
            call find_run(place, task%share, at, last - at, offset, elements)
            call file%resident_bytes(offset, element_bytes*elements, here, message)
            if (message /= '') then
                call error%set(exit_io, 'open', file%path, message)
                exit
            end if
            in_memory = merge(in_memory + here, -1_int64, in_memory >= 0 .and. here >= 0)
            at = at + elements
        end do
        ! Or one rank's reading ahead would be another's page cache.
        call MPI_Barrier(plan%comm)
        if (error%failed()) return

        allocate (values(min(last - first, window_bytes/element_bytes)))
        wrong = difference_of(task)
        at = first
        do while (at < last)
            call find_run(place, task%share, at, min(last - at, size(values, kind=int64)), offset, &
                elements)
            call file%read(offset, values(:elements), message)
            if (message /= '') exit
            if (place%is_big_endian) call swap_bytes(values(:elements))
            call wrong%add_run(values(:elements), at, key)
            at = at + elements
        end do
        is_direct = file%is_direct()    ! a filesystem may refuse only when it is read
        if (is_direct) in_memory = 0
        if (message /= '') call error%set(exit_io, 'pread', file%path, message)
        call file%close()
        call judge(task, wrong, last - first, confirmed, error)
    end subroutine read_slice

    !> Where an element is in the file, in bytes, and how many follow it there.
    pure subroutine find_run(place, share, at, most, offset, elements)
        type(placement), intent(in) :: place
        type(file_share), intent(in) :: share
        integer(int64), intent(in) :: at            !! its index in the array, from 0
        integer(int64), intent(in) :: most          !! at which to stop counting
        integer(int64), intent(out) :: offset, elements

        integer(int64) :: run

        run = product(share%block%global)/size(place%offsets)
        offset = place%offsets(1 + at/run) + element_bytes*mod(at, run)
        elements = min(most, run - mod(at, run))
    end subroutine find_run

    !> None so far, and what will count as one.
    pure type(differences) function difference_of(task)
        type(file_task), intent(in) :: task

        difference_of%kept_bits = task%settings%access%kept_bits()
        difference_of%tolerance = task%settings%access%tolerance()
    end function difference_of

    !> Collective: every rank reads a block of another decomposition than the writer's.
    subroutine read_through_library(method, plan, task, key, confirmed, error)
        class(backend), intent(in) :: method
        type(layout), intent(in) :: plan
        type(file_task), intent(inout) :: task
        integer(int64), intent(in) :: key
        integer(int64), intent(out) :: confirmed    !! bytes
        type(failure), intent(inout) :: error

        class(open_file), allocatable :: file
        real(real64), allocatable, target :: field(:, :, :)
        type(decomposition) :: block
        type(differences) :: wrong
        integer(int64) :: grid(3)
        integer :: code

        confirmed = 0
        associate (share => task%share, written => task%share%block)
            call choose_grid(share, grid)
            block = new_decomposition(written%global, grid, int(share%position, int64), 0_int64, &
                written%layers)
            allocate (field(block%extent(1), block%extent(2), block%extent(3)), stat=code)
            if (code /= 0) call error%set(exit_internal, 'allocate', task%path, &
                'no memory for a block of '//decimal(block%bytes())//' bytes to read it back')
            call agree(error, plan%comm)
            if (error%failed()) return
            call poison(field)
            call method%new_file(file)
            call file%open(task%path, block, share%ranks, task%settings, .false., error)
            call agree(error, share%ranks)
            if (.not. error%failed()) then
                call file%select(block, error)
                call file%move(.false., field, error)
                call agree(error, share%ranks)
            end if
            if (.not. error%failed()) call file%close(error)
        end associate
        if (error%failed()) return
        wrong = difference_of(task)
        call wrong%add_block(field, block, key)
        call judge(task, wrong, block%elements(), confirmed, error)
    end subroutine read_through_library

    subroutine judge(task, wrong, elements, confirmed, error)
        type(file_task), intent(in) :: task
        type(differences), intent(in) :: wrong
        integer(int64), intent(in) :: elements      !! compared
        integer(int64), intent(out) :: confirmed    !! bytes
        type(failure), intent(inout) :: error

        confirmed = element_bytes*elements
        if (wrong%elements > 0) call error%set(exit_verification, 'witness', task%path, &
            wrong%line(elements, task%share%block%global))
    end subroutine judge

    !> The elements of the file that this rank reads: from first to before last, from 0.
    pure subroutine slice_of(share, first, last)
        type(file_share), intent(in) :: share
        integer(int64), intent(out) :: first, last

        integer(int64) :: each, rest

        associate (elements => product(share%block%global), k => share%position)
            each = elements/share%sharers
            rest = mod(elements, int(share%sharers, int64))
            first = k*each + min(int(k, int64), rest)
            last = first + each
            if (k < rest) last = last + 1
        end associate
    end subroutine slice_of

    !> A grid of as many ranks that is not the writer's: planes along z if it can be.
    pure subroutine choose_grid(share, grid)
        type(file_share), intent(in) :: share
        integer(int64), intent(out) :: grid(3)

        integer(int64) :: layer(3), p, q, ranks

        ranks = share%sharers
        layer = share%block%layer()
        do p = 1, ranks
            if (mod(ranks, p) /= 0) cycle
            do q = 1, ranks/p
                if (mod(ranks/p, q) /= 0) cycle
                grid(1) = p
                grid(2) = q
                grid(3) = ranks/p/q
                if (all(grid <= layer) .and. any(grid /= share%block%grid)) return
            end do
        end do
        grid = share%block%grid         ! there is no other
    end subroutine choose_grid

    !> Bytes of this rank's slice of a file that are in the node's page cache; -1: not known.
    integer(int64) function pages_in_memory(task)
        type(file_task), intent(in) :: task

        character(:), allocatable :: message
        type(file_parts) :: file
        integer(int64) :: first, last

        call slice_of(task%share, first, last)
        file = task%parts
        call file%resident_bytes(element_bytes*first, element_bytes*(last - first), &
            pages_in_memory, message)
        if (message /= '') pages_in_memory = -1
        call file%close()
    end function pages_in_memory

    !> Collective: which part of the bytes was in memory, 0 to 1; -1 if a rank does not know.
    real(real64) function fraction_in_memory(in_memory, bytes, comm) result(fraction)
        integer(int64), intent(in) :: in_memory     !! of this rank's; -1: not known
        integer(int64), intent(in) :: bytes         !! of all ranks
        type(MPI_Comm), intent(in) :: comm

        integer(int64) :: least, total

        call MPI_Allreduce(in_memory, least, 1, MPI_INT64_T, MPI_MIN, comm)
        call MPI_Allreduce(in_memory, total, 1, MPI_INT64_T, MPI_SUM, comm)
        fraction = -1
        if (least >= 0) fraction = min(1.0_real64, real(total, real64)/real(bytes, real64))
    end function fraction_in_memory

    !> From big-endian to this machine's order, if that is little-endian.
    pure subroutine swap_bytes(values)
        real(real64), intent(inout) :: values(:)

        integer(int64) :: bits, swapped
        integer :: byte
        integer(int64) :: i

        do i = 1, size(values, kind=int64)
            bits = transfer(values(i), bits)
            swapped = 0
            do byte = 0, 7
                swapped = ior(shiftl(swapped, 8), iand(shiftr(bits, 8*byte), 255_int64))
            end do
            values(i) = transfer(swapped, values(i))
        end do
    end subroutine swap_bytes

end module benchio_witness
