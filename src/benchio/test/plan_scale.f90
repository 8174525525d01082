!> What a run of very many ranks costs a rank before it moves a byte: for bench/scale.py, without
!> those ranks. Arguments: ranks, ranks of a node, and whether a node's ranks are neighbours
!> ("blocks") or dealt out in turn ("turns"). Prints a line for each part: its name, seconds, MiB of
!> memory that it has added to the peak, and bytes.
program plan_scale
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use benchio_command_line, only: parse_options
    use benchio_decomposition, only: decomposition
    use benchio_failure, only: failure
    use benchio_kept_files, only: kept_files, read_record, record_text
    use benchio_ownership, only: file_share, half_turn, plan_block, second_readers
    use benchio_nodes, only: new_runs, node_list, numbers_of, rank_run
    use benchio_options, only: options
    use benchio_posix, only: attempt, now, peak_rss, remove_file, write_file
    use benchio_written_part, only: written_part
    use check, only: expect
    use command_lines, only: words
    implicit none (type, external)

    character(16) :: order, word(2)
    type(options) :: choice
    type(decomposition) :: block
    type(node_list) :: nodes
    character(:), allocatable :: message
    integer(int64) :: bytes_before
    real(real64) :: start
    integer :: i, on_node, ranks

    do i = 1, 2
        call get_command_argument(i, word(i))
    end do
    call get_command_argument(3, order)
    read (word, *) ranks, on_node
    call parse_options(words('--local-size 8'), choice, message)
    call expect(message == '', message)

    call begin()
    call plan_block(choice, 0, 1, 1, ranks, ranks/2, block, message)
    call expect(message == '', message)
    call tell('block', block%bytes())

    call begin()
    call list_all()
    call tell('nodes', size(numbers_of(nodes%runs))*4_int64)

    call find_partners()
    call keep_record()

contains

    subroutine begin()
        bytes_before = peak_rss()
        start = now()
    end subroutine begin

    !> Prints what a part has taken.
    subroutine tell(name, bytes)
        character(*), intent(in) :: name
        integer(int64), intent(in) :: bytes

        write (*, '(a,2(1x,es12.5),1x,i0)') name, now() - start, &
            real(peak_rss() - bytes_before, real64)/2**20, bytes
    end subroutine tell

    !> The ranks of a node.
    pure function ranks_of(node) result(list)
        integer, intent(in) :: node                 !! from 0
        integer, allocatable :: list(:)

        integer :: k

        if (order == 'blocks') then
            list = [(k, k=node*on_node, min(ranks, (node + 1)*on_node) - 1)]
        else
            list = [(k, k=node, ranks - 1, (ranks + on_node - 1)/on_node)]
        end if
    end function ranks_of

    !> All nodes, as rank 0 has them.
    subroutine list_all()
        type(rank_run), allocatable :: runs(:)
        integer :: node

        associate (number => (ranks + on_node - 1)/on_node)
            allocate (nodes%hosts(number), nodes%runs(number), nodes%node(number))
            do node = 1, number
                write (nodes%hosts(node), '("nid",i6.6)') node
                runs = new_runs(ranks_of(node - 1))
                call expect(size(runs) == 1, 'ranks of a node are one run')
                nodes%runs(node) = runs(1)
                nodes%node(node) = node
            end do
        end associate
    end subroutine list_all

    !> Who confirms what, as each of some ranks finds out for itself.
    subroutine find_partners()
        integer, parameter :: some = 1000
        type(file_share) :: share
        type(written_part) :: here
        integer, allocatable :: from(:)
        integer(int64) :: first, last, of_node
        integer :: place, to

        call begin()
        share%sharers = ranks
        share%block = block
        here%array = block
        of_node = 0
        do place = 0, ranks - 1, max(1, ranks/some)
            here%ranks = new_runs(ranks_of(place/on_node))
            call share%slice(modulo(place + half_turn(ranks), ranks), first, last)
            of_node = of_node + here%elements_in_run(first, last)
            call second_readers(place, ranks, [huge(1), huge(1)], to, from)
            call expect(to /= place .and. size(from) == 1, 'another rank helps')
        end do
        call tell('partners', of_node*8)
    end subroutine find_partners

    !> The record of kept files, where each node has one, written and read.
    subroutine keep_record()
        type(kept_files) :: kept, again
        type(failure) :: error
        character(:), allocatable :: text

        call begin()
        kept%run_id = 'scale'
        kept%files = 'node'
        kept%writers = ranks
        kept%backends = [character(8) :: 'mpiio']
        kept%targets = [character(64) ::]
        kept%nodes = nodes
        kept%first_rank = nodes%runs%first
        kept%sharers = nodes%runs%count
        kept%file_count = size(nodes%runs)
        text = record_text(kept)
        call write_file('plan_scale.nml', text, message)
        call expect(message == '', message)
        call read_record('plan_scale.nml', again, error)
        call expect(.not. error%failed(), 'it is read')
        call expect(all(again%sharers == kept%sharers), 'as it was')
        call attempt(remove_file, 'plan_scale.nml', message)
        call tell('record', len(text, int64))
    end subroutine keep_record

end program plan_scale
