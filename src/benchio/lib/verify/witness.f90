!> The witness: someone else confirms every byte that a library has written.
!>
!> It shares nothing with the writer. Not the decomposition: it takes contiguous slices of the file,
!> not blocks. Not the library: it reads the bytes where they are in the file, by pread; only where
!> they are in no one run, as in chunks, it has to read through the library, and says so. Not the
!> node, if there are several. And not the page cache: the pages are dropped first, and the file is
!> opened with O_DIRECT where the filesystem allows that; else the witness says which part of the
!> bytes was still in memory.
module benchio_witness
    use, intrinsic :: iso_c_binding, only: c_loc
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use mpi_f08, only: MPI_Allreduce, MPI_Bcast, MPI_Comm, MPI_Comm_size, &
        MPI_Gather, MPI_IN_PLACE, MPI_INT64_T, MPI_INTEGER, MPI_LAND, MPI_LOGICAL, MPI_MIN, MPI_SUM
    use benchio_access, only: element_bytes
    use benchio_backend, only: backend, placement
    use benchio_decomposition, only: decomposition, new_decomposition
    use benchio_failure, only: agree, exit_internal, exit_io, exit_verification, failure
    use benchio_file_parts, only: file_parts
    use benchio_ownership, only: file_share
    use benchio_raw_file, only: aligned_memory
    use benchio_pattern, only: content, differences, most_extents, poison
    use benchio_file_task, only: agree_watched, diagnose_write, file_task
    use benchio_run_directory, only: run_place
    use benchio_text, only: decimal
    use benchio_written_part, only: written_part
    implicit none (type, external)
    private

    public :: check_size, confirm_bytes, content_of, drop_pages, fraction_in_memory, offsets_of

    !> Bytes a rank reads at a time.
    integer(int64), parameter :: window_bytes = 8*2_int64**20

    !> No filesystem's block, and no page, has more bytes.
    integer(int64), parameter :: largest_block = 2_int64**16

    !> What the witness has to say of one round; the same on all ranks.
    type, public :: testimony
        logical :: is_through_library = .false.
        logical :: is_direct = .false.              !! past the page cache, by O_DIRECT
        integer(int64) :: bytes = 0                 !! confirmed, of all files
        integer(int64) :: names = -1                !! confirmed; less than 0: it is about bytes
        real(real64) :: page_cache_fraction = -1    !! of them; less than 0: not known
        real(real64) :: unsynced_fraction = -1      !! of the files, after the sync; < 0: not known
        real(real64) :: other_node_byte_fraction = 0     !! of the bytes: confirmed on another node
    end type testimony

contains

    !> Reads all files and compares every bit with the pattern. Collective.
    subroutine confirm_bytes(written, task, was_read, unsynced, witness, wrong, error)
        type(file_task), intent(inout) :: written   !! what this rank wrote
        type(file_task), intent(inout) :: task      !! what it reads: its partner's share
        logical, intent(in) :: was_read             !! since the pages were dropped
        integer(int64), intent(inout) :: unsynced   !! as `drop_pages` had it if it was read
        type(testimony), intent(inout) :: witness
        type(differences), intent(out) :: wrong     !! that this rank has found
        type(failure), intent(inout) :: error

        type(placement) :: located
        integer(int64) :: in_memory
        integer(int64) :: bytes(3)                  ! confirmed, of these written here, in the file
        logical :: is_direct, of_all(2)

        call find_data(task, located, error)
        if (error%failed()) return
        if (was_read) then
            call drop_pages(written, task, error)
        else
            call drop_pages(written, task, error, unsynced)
        end if
        if (error%failed()) return

        call task%watchdog%watch('witness')
        is_direct = .false.
        bytes = 0
        if (located%is_contiguous) then
            call read_slice(task, located, is_direct, in_memory, bytes, wrong, error)
        else
            call read_through_library(task, in_memory, bytes, wrong, error)
        end if
        call agree_watched(task%watchdog, task%comm, error)
        if (error%failed()) return

        of_all(1) = is_direct
        of_all(2) = located%is_contiguous
        call MPI_Allreduce(MPI_IN_PLACE, of_all, 2, MPI_LOGICAL, MPI_LAND, task%comm)
        witness%is_direct = of_all(1)
        witness%is_through_library = .not. of_all(2)
        if (task%share%position == 0) bytes(3) = task%share%block%global_bytes()
        call MPI_Allreduce(MPI_IN_PLACE, bytes, 3, MPI_INT64_T, MPI_SUM, task%comm)
        if (bytes(1) /= bytes(3)) call error%set(exit_internal, 'witness', task%path, &
            decimal(bytes(1))//' of '//decimal(bytes(3))//' bytes were compared')
        call agree(error, task%comm)
        if (error%failed()) return
        witness%bytes = bytes(1)
        witness%other_node_byte_fraction = real(bytes(1) - bytes(2), real64)/real(bytes(1), real64)
        witness%page_cache_fraction = fraction_in_memory(in_memory, witness%bytes, task%comm)
    end subroutine confirm_bytes

    !> Has the first rank of each file look at where it is, and at its size. A library's read past
    !> the end of a short file reports success. Collective.
    subroutine check_size(task, place, file_bytes, error)
        type(file_task), intent(inout) :: task
        type(run_place), intent(in) :: place
        integer(int64), intent(out) :: file_bytes   !! of all files, header and all
        type(failure), intent(inout) :: error

        integer :: i
        integer(int64) :: data_bytes

        file_bytes = 0
        if (task%share%position == 0) then
            do i = 1, max(1, task%parts%subfiles)
                call place%require(task%parts%path_of(i), error)
            end do
            data_bytes = task%share%block%global_bytes()
            call task%parts%bytes(file_bytes, error)
            if (file_bytes < data_bytes .and. task%settings%access%deflate == 0) call error%set( &
                exit_io, 'stat', task%path, 'file has '//decimal(file_bytes)//' bytes, ' &
                //decimal(data_bytes)//' bytes of data were written')
        end if
        call agree_watched(task%watchdog, task%comm, error)
        call diagnose_write(task, error)
        if (error%failed()) return
        call MPI_Allreduce(MPI_IN_PLACE, file_bytes, 1, MPI_INT64_T, MPI_SUM, task%comm)
    end subroutine check_size

    !> Has the nodes forget the files' pages, those that wrote them and those that will read them.
    !> What is dirty stays: after a sync that has reached storage there is nothing. Collective.
    !>
    !> Readers drop only after every writer's node has counted: a page that another process is just
    !> dropping stays for a moment, and looks as a dirty one does. What then stays is looked at
    !> here, on the same descriptor: a further open would warm the client for a timed one.
    subroutine drop_pages(written, task, error, unsynced, in_memory)
        type(file_task), intent(inout) :: written   !! what this rank wrote
        type(file_task), intent(in) :: task         !! what it will read
        type(failure), intent(inout) :: error
        !> Bytes of what it wrote that this rank's node had still to write; -1: not known.
        integer(int64), intent(out), optional :: unsynced
        !> Bytes of the blocks to be read that stay in memory, as `pages_in_memory` has them.
        integer(int64), intent(out), optional :: in_memory

        type(file_parts) :: file
        logical :: drops

        if (present(unsynced)) unsynced = 0
        ! Dropping writes what is dirty first, and may hang as a write may.
        call written%watchdog%watch('posix_fadvise')
        if (written%share%is_node_leader) then
            call drop(written%parts)
            if (present(unsynced) .and. .not. error%failed()) unsynced = file%unsynced_bytes()
            call file%close()
        end if
        call agree_watched(written%watchdog, task%comm, error)
        if (error%failed()) return
        drops = task%share%is_node_leader .and. (task%path /= written%path .or. present(in_memory))
        if (drops) call drop(task%parts)
        if (present(in_memory)) in_memory = pages_in_memory(file, task%share, task%share%block)
        if (drops) call file%close()
        call agree_watched(written%watchdog, task%comm, error)

    contains

        !> Opens the parts of a file and drops their pages.
        subroutine drop(closed)
            type(file_parts), intent(in) :: closed

            file = closed
            call file%open(error)
            if (.not. error%failed()) call file%drop_pages(error)
        end subroutine drop

    end subroutine drop_pages

    !> Tells all ranks where the data are, as the first rank of each file finds it. Collective.
    subroutine find_data(task, located, error)
        type(file_task), intent(inout) :: task
        type(placement), intent(out) :: located
        type(failure), intent(inout) :: error

        integer :: runs

        call task%watchdog%watch('look for the data')
        if (task%share%position == 0) call task%method%locate(task%path, task%settings, located, &
            error)
        if (task%share%position == 0 .and. .not. error%failed() .and. located%is_contiguous) then
            if (mod(located%offsets(1), task%settings%alignment) /= 0) call error%set(exit_io, &
                'alignment', task%path, 'the array begins at byte '//decimal(located%offsets(1)) &
                //', no multiple of --alignment '//decimal(task%settings%alignment) &
                //': look for what overrides it, such as PNETCDF_HINTS')
        end if
        call agree_watched(task%watchdog, task%comm, error)
        if (error%failed()) return
        call MPI_Bcast(located%is_contiguous, 1, MPI_LOGICAL, 0, task%share%ranks)
        runs = 0
        if (allocated(located%offsets)) runs = size(located%offsets)
        call MPI_Bcast(runs, 1, MPI_INTEGER, 0, task%share%ranks)
        if (.not. allocated(located%offsets)) allocate (located%offsets(runs))
        call MPI_Bcast(located%offsets, runs, MPI_INT64_T, 0, task%share%ranks)
        call MPI_Bcast(located%is_big_endian, 1, MPI_LOGICAL, 0, task%share%ranks)
    end subroutine find_data

    !> Reads this rank's contiguous slice of the array, as raw bytes, and those of other nodes'
    !> slices that were handed over to this rank. Collective.
    subroutine read_slice(task, located, is_direct, in_memory, bytes, wrong, error)
        type(file_task), intent(in) :: task
        type(placement), intent(in) :: located
        logical, intent(out) :: is_direct
        integer(int64), intent(out) :: in_memory        !! bytes in the page cache; -1: not known
        integer(int64), intent(inout) :: bytes(:)       !! confirmed, and of these written here
        type(differences), intent(out) :: wrong
        type(failure), intent(inout) :: error

        type(aligned_memory) :: window
        type(file_parts) :: file
        integer :: i
        integer(int64) :: at, elements, first, here, last, offset
        logical :: has_room

        is_direct = .false.
        in_memory = 0
        call task%share%slice(task%share%position, first, last)
        file = task%parts
        at = first
        do while (at < last)
            call find_run(located, task%share, at, last - at, offset, elements)
            call file%resident_bytes(offset, element_bytes*elements, here, error)
            if (error%failed()) exit
            in_memory = merge(in_memory + here, -1_int64, in_memory >= 0 .and. here >= 0)
            at = at + elements
        end do
        ! Or one rank's reading ahead would be another's page cache. Ranks of other files may be in
        ! read_through_library, and agree there.
        call agree(error, task%comm)
        if (error%failed()) return

        call window%provide(min(last - first, window_bytes/element_bytes) &
            + 2*largest_block/element_bytes, has_room)
        if (.not. has_room) call error%set(exit_internal, 'posix_memalign', task%path, &
            'no memory to read '//decimal(window_bytes)//' bytes at a time')
        wrong%written = content_of(task)
        wrong%written%as_big_endian = merge(1, 0, located%is_big_endian)
        associate (share => task%share)
            call read_elements(share%position, share%here, .not. share%hands_over, .true.)
            do i = 1, size(share%left)
                call read_elements(share%left(i)%position, share%left(i)%part, .true., .false.)
            end do
        end associate
        is_direct = file%is_direct()    ! a filesystem may refuse only when it is read
        if (is_direct) in_memory = 0
        call file%close()
        call window%free()
        call judge(task, wrong, bytes(1)/element_bytes, error)

    contains

        !> Compares of a slice what a node has written, or the rest, or both. Windows end where a
        !> block of the file does, lest reading past the page cache takes a call more for each.
        subroutine read_elements(position, part, wants_part, wants_rest)
            integer, intent(in) :: position             !! of the slice
            type(written_part), intent(in) :: part
            logical, intent(in) :: wants_part, wants_rest

            integer(int64) :: at, before, elements, last, offset
            logical :: is_part

            call task%share%slice(position, at, last)
            do while (at < last .and. .not. error%failed())
                call part%look_at(at, last - at, is_part, elements)
                if (merge(wants_part, wants_rest, is_part)) then
                    call find_run(located, task%share, at, last - at, offset, elements)
                    before = mod(offset, largest_block)
                    elements = min(elements, (window_bytes - before)/element_bytes)
                    call file%read(offset, window, before, element_bytes*elements, error)
                    if (error%failed()) exit
                    call compare(at, elements, before, part, wants_part, wants_rest)
                end if
                at = at + elements
            end do
        end subroutine read_elements

        !> Compares those of the values just read that this rank is to confirm.
        subroutine compare(at, elements, before, part, wants_part, wants_rest)
            integer(int64), intent(in) :: at, elements
            integer(int64), intent(in) :: before        !! bytes of the window
            type(written_part), intent(in) :: part
            logical, intent(in) :: wants_part, wants_rest

            integer(int64) :: done, length
            logical :: is_part

            done = 0
            do while (done < elements)
                length = elements - done
                is_part = .true.
                if (.not. (wants_part .and. wants_rest)) then
                    call part%look_at(at + done, elements - done, is_part, length)
                end if
                if (merge(wants_part, wants_rest, is_part)) then
                    call wrong%add_run(c_loc(window%bytes(before + element_bytes*done + 1)), &
                        length, at + done)
                    bytes(1) = bytes(1) + element_bytes*length
                    bytes(2) = bytes(2) + element_bytes*task%share%here%elements_in_run(at + done, &
                        at + done + length)
                end if
                done = done + length
            end do
        end subroutine compare

    end subroutine read_slice

    !> Finds where in its file each listed extent begins (bytes); -1 where only the library knows.
    !> Collective.
    function offsets_of(wrong, task) result(offsets)
        type(differences), intent(in) :: wrong
        type(file_task), intent(inout) :: task
        integer(int64) :: offsets(most_extents)

        type(failure) :: error
        type(placement) :: located
        integer(int64) :: ignored
        integer :: i

        offsets = -1
        call find_data(task, located, error)
        if (error%failed() .or. .not. located%is_contiguous) return
        do i = 1, min(wrong%extents, most_extents)
            call find_run(located, task%share, wrong%listed(i)%first, 1_int64, offsets(i), ignored)
        end do
    end function offsets_of

    !> Where an element is in the file, in bytes, and how many follow it there.
    pure subroutine find_run(located, share, at, most, offset, elements)
        type(placement), intent(in) :: located
        type(file_share), intent(in) :: share
        integer(int64), intent(in) :: at            !! its index in the array, from 0
        integer(int64), intent(in) :: most          !! at which to stop counting
        integer(int64), intent(out) :: offset, elements

        integer(int64) :: run

        run = product(share%block%global)/size(located%offsets)
        offset = located%offsets(1 + at/run) + element_bytes*mod(at, run)
        elements = min(most, run - mod(at, run))
    end subroutine find_run

    !> What is to be in a file.
    pure type(content) function content_of(task)
        type(file_task), intent(in) :: task

        content_of = content(task%key, task%settings%access%kept_bits(), &
            task%settings%access%tolerance())
    end function content_of

    !> Has every rank read a block of another decomposition than the writer's. Collective.
    subroutine read_through_library(task, in_memory, bytes, wrong, error)
        type(file_task), intent(inout) :: task
        integer(int64), intent(out) :: in_memory        !! bytes in the page cache; -1: not known
        integer(int64), intent(inout) :: bytes(:)       !! confirmed, and of these written here
        type(differences), intent(out) :: wrong
        type(failure), intent(inout) :: error

        class(backend), allocatable :: file
        real(real64), allocatable, target :: field(:, :, :)
        type(decomposition) :: block
        type(file_parts) :: parts
        integer(int64) :: grid(3)
        integer :: code

        associate (share => task%share, written => task%share%block)
            call choose_grid(share, grid)
            block = new_decomposition(written%global, grid, int(share%position, int64), 0_int64, &
                written%layers)
            parts = task%parts
            in_memory = pages_in_memory(parts, share, block)
            call parts%close()
            allocate (field(block%extent(1), block%extent(2), block%extent(3)), stat=code)
            if (code /= 0) call error%set(exit_internal, 'allocate', task%path, &
                'no memory for a block of '//decimal(block%bytes())//' bytes to read it back')
            call task%method%reserve(task%method%packed_elements(block, task%settings), task%path, &
                error)
            call agree(error, task%comm)
            if (error%failed()) return
            call poison(field)
            allocate (file, mold=task%method)
            file%buffer = task%method%buffer
            call file%open(task%path, block, share%ranks, task%settings, .false., error)
            call agree(error, share%ranks)
            if (error%failed()) return
            call file%define(error)
            call file%select(block, error)
            call agree(error, share%ranks)
            if (error%failed()) return
            call file%move(.false., field, error)
            call agree(error, share%ranks)
            if (error%failed()) return
            call file%close(error)
        end associate
        if (error%failed()) return
        wrong%written = content_of(task)
        call wrong%add_block(field, block)
        bytes(1) = block%bytes()
        bytes(2) = task%share%here%bytes_in_block(block)
        call judge(task, wrong, block%elements(), error)
    end subroutine read_through_library

    subroutine judge(task, wrong, elements, error)
        type(file_task), intent(in) :: task
        type(differences), intent(in) :: wrong
        integer(int64), intent(in) :: elements      !! compared
        type(failure), intent(inout) :: error

        if (wrong%elements > 0) call error%set(exit_verification, 'witness', task%path, &
            wrong%line(elements, task%share%block%global))
    end subroutine judge

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

    !> Counts the bytes in this node's page cache of the blocks which ranks are to read; -1: not
    !> known. The first rank of a file on the node looks, for all: 0 on the others. Where other
    !> blocks lie between the rows of one, pages of the rows' range count in proportion. Collective
    !> over the ranks of this node that share the file.
    integer(int64) function pages_in_memory(file, share, block)
        type(file_parts), intent(inout) :: file         !! opened where it is not open yet
        type(file_share), intent(in) :: share
        type(decomposition), intent(in) :: block        !! that this rank is to read

        type(failure) :: error
        type(decomposition) :: part
        integer(int64) :: box(6), here, planes, range, used, z
        integer(int64), allocatable :: boxes(:, :)      ! (lower and extent, rank)
        integer :: i, ranks

        call MPI_Comm_size(share%neighbours, ranks)
        allocate (boxes(6, merge(ranks, 0, share%is_node_leader)))
        box(:3) = block%lower
        box(4:) = block%extent
        call MPI_Gather(box, 6, MPI_INT64_T, boxes, 6, MPI_INT64_T, 0, share%neighbours)
        pages_in_memory = 0
        here = 0
        part = block
        do i = 1, size(boxes, 2)
            part%lower = boxes(:3, i)
            part%extent = boxes(4:, i)
            associate (n => part%global, extent => part%extent)
                planes = 1
                if (all(extent(:2) == n(:2))) planes = extent(3)/part%layers
                range = n(1)*(extent(2) - 1) + extent(1) + n(1)*n(2)*(planes - 1)
                used = product(extent(:2))*planes
                do z = 0, extent(3) - 1, planes
                    call file%resident_bytes(element_bytes*(part%lower(1) + n(1)*(part%lower(2) &
                        + n(2)*part%plane(z))), element_bytes*range, here, error)
                    if (error%failed() .or. here < 0) exit
                    pages_in_memory = pages_in_memory + nint(real(here, real64) &
                        *(real(used, real64)/real(range, real64)), int64)
                end do
            end associate
            if (error%failed() .or. here < 0) exit
        end do
        if (error%failed() .or. here < 0) pages_in_memory = -1
    end function pages_in_memory

    !> Returns which part of the bytes was in memory, 0 to 1; -1 if a rank does not know.
    !> Collective.
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

end module benchio_witness
