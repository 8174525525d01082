!> The record of what was kept comes back as it was, or not at all; and nobody reads his own.
program test_kept_files
    use, intrinsic :: iso_fortran_env, only: int64
    use benchio_decomposition, only: decomposition, new_decomposition
    use benchio_kept_files, only: assign_readers, kept_files, new_record, parse_record, record_text
    use benchio_layout, only: layout
    use benchio_options, only: options
    use benchio_pattern, only: key_of_text
    use benchio_text, only: decimal
    use check, only: expect
    implicit none (type, external)

    type(kept_files) :: found, kept
    character(:), allocatable :: message, text
    integer :: at

    ! Two files of three writers each, on three hosts of two ranks.
    kept%run_id = 'night'
    kept%started = '2026-11-22T01:00:00.000Z'
    kept%pattern = ''
    kept%files = '2'
    kept%backends = [character(8) :: 'mpiio', 'hdf5']
    kept%targets = [character(64) ::]
    kept%first_round = 2
    kept%rounds = 3
    kept%global_size = [8, 9, 10]
    kept%extents = reshape([8_int64, 9_int64, 5_int64, 8_int64, 9_int64, 5_int64], [3, 2])
    kept%grid = reshape([1_int64, 1_int64, 3_int64, 1_int64, 1_int64, 3_int64], [3, 2])
    kept%file = [0, 0, 0, 1, 1, 1]
    kept%host = [1, 1, 2, 2, 3, 3]
    kept%hosts = [character(256) :: 'nid001', 'nid''002', 'nid003']

    text = record_text(kept)
    call parse_record(text, found, message)
    call expect(message == '', 'the record is read: '//message)
    call expect(found%run_id == 'night' .and. found%started == kept%started &
        .and. found%files == '2' .and. all(found%backends == kept%backends) &
        .and. size(found%targets) == 0, 'its names')
    call expect(found%first_round == 2 .and. found%rounds == 3 &
        .and. all(found%local_size == 0) .and. all(found%global_size == kept%global_size) &
        .and. all(found%extents == kept%extents) .and. all(found%grid == kept%grid) &
        .and. all(found%file == kept%file) .and. all(found%host == kept%host), 'its numbers')
    call expect(all(found%hosts == kept%hosts), 'its hosts')
    do at = 0, len(text) - 1
        call parse_record(text(:at), found, message)
        call expect(message /= '', 'a part of it is refused')
        text(at + 1:at + 1) = achar(ieor(iachar(text(at + 1:at + 1)), 1))
        call parse_record(text, found, message)
        call expect(message /= '', 'and so is one with another bit')
        text(at + 1:at + 1) = achar(ieor(iachar(text(at + 1:at + 1)), 1))
    end do

    kept%targets = [character(64) :: '3', 'osd.1']
    call parse_record(record_text(kept), found, message)
    call expect(message == '' .and. all(found%targets == kept%targets), 'targets')

    kept%pattern = '--order strided'
    call parse_record(record_text(kept), found, message)
    call expect(index(message, 'of --order strided') > 0, 'only whole blocks are read by others')

    text = record_text(kept)
    text = text(:index(text, '! checksum ') - 1)
    at = index(text, 'format = 1')
    text(at:at + 9) = 'format = 2'
    call parse_record(text//'! checksum '//decimal(key_of_text(text))//new_line('a'), found, &
        message)
    call expect(index(message, 'it has format 2') == 1, 'and a format that is known')

    call records_of_a_run()

    ! The same ranks on the same hosts: each reads what another host has written.
    call readers([1, 1, 2, 2, 3, 3], 0)
    call readers([2, 2, 1, 1, 3, 3], 2)     ! of no turn less
    call readers([0, 0, 0, 0, 0, 0], 0)
    call readers([1, 1, 1, 1, 1, 1], 2)     ! alone: what it has written it has to read
    call readers([0, 0, 3, 3, 1, 1], 0)

contains

    !> Four ranks, two of each file, of a run that its time limit has ended.
    subroutine records_of_a_run()
        character(4), parameter :: hosts(4) = ['nid1', 'nid2', 'nid2', 'nid3']
        integer(int64), parameter :: of_rank(6, 4) = 4
        type(options) :: choice
        type(layout) :: plan
        type(kept_files) :: record

        choice%run_id = 'night'
        choice%files = 'shared'
        choice%backends = [character(8) :: 'posix']
        choice%targets = [character(64) ::]
        choice%warmup = 1
        choice%repeats = 9
        plan%ranks = 4
        plan%files = 2
        plan%file = [0, 0, 1, 1]
        record = new_record(choice, plan, 'now', 3, hosts, of_rank)
        call expect(record%first_round == 2 .and. record%rounds == 2, 'the rounds that there were')
        call expect(all(record%host == [1, 2, 2, 3]), 'each rank has written on its host')
        choice%files = 'gather'
        record = new_record(choice, plan, 'now', 3, hosts, of_rank)
        call expect(all(record%host == [1, 1, 2, 2]), 'or the first that shares its file has')
    end subroutine records_of_a_run

    !> As many ranks in the same two files, two on a node, on these hosts of the record.
    subroutine readers(host, same)
        integer, intent(in) :: host(6)          !! of each rank
        integer, intent(in) :: same             !! ranks that are to read what their host wrote

        type(decomposition) :: block
        integer(int64) :: blocks(6, 6)
        integer :: found, i, partner(6)
        integer, parameter :: node(6) = [0, 0, 1, 1, 2, 2]

        do i = 1, 6
            block = new_decomposition(kept%extents(:, 1), kept%grid(:, 1), &
                mod(i - 1, 3)*1_int64, 0_int64)
            blocks(:, i) = [block%lower, block%extent]
        end do
        call assign_readers(kept, kept%file, node, host, blocks, partner, found)
        call expect(found == same, 'so few read what their own host has written')
        call expect(count([(kept%host(partner(i) + 1) == host(i), i=1, 6)]) == same, &
            'as the shares say')
        call expect(all([(any(partner == i), i=0, 5)]), 'and every share is read')
    end subroutine readers

end program test_kept_files
