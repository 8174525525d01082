!> The record of what was kept comes back as it was, or not at all.
program test_kept_files
    use mpi_f08, only: MPI_Finalize, MPI_Init
    use benchio_failure, only: failure
    use benchio_kept_files, only: file_facts, kept_files, read_record, record_text
    use benchio_nodes, only: rank_run
    use benchio_pattern, only: key_of_text
    use benchio_text, only: decimal
    use check, only: expect
    implicit none (type, external)

    type(kept_files) :: found, kept
    character(:), allocatable :: message, text
    integer :: at

    call MPI_Init()
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
    kept%grid = [1, 1, 3]
    kept%writers = 6
    kept%file_count = 2
    kept%nodes%hosts = [character(256) :: 'nid001', 'nid''002', repeat('long.', 40)]
    kept%nodes%runs = [rank_run(0, 1, 2), rank_run(2, 1, 2), rank_run(4, 1, 2)]
    kept%nodes%node = [1, 2, 3]
    kept%first_rank = [integer ::]
    kept%sharers = [integer ::]

    text = record_text(kept)
    call read_text(text)
    call expect(message == '', 'the record is read: '//message)
    call expect(found%run_id == 'night' .and. found%started == kept%started &
        .and. found%files == '2' .and. all(found%backends == kept%backends) &
        .and. size(found%targets) == 0, 'its names')
    call expect(found%first_round == 2 .and. found%rounds == 3 .and. found%writers == 6 &
        .and. all(found%local_size == 0) .and. all(found%global_size == kept%global_size) &
        .and. all(found%grid == kept%grid) .and. found%file_count == 2, 'its numbers')
    call expect(all(found%nodes%hosts == kept%nodes%hosts) .and. found%nodes%host_of(3) &
        == 'nid''002' .and. found%nodes%host_of(6) == '', 'its hosts')
    do at = 0, len(text) - 1
        call read_text(text(:at))
        call expect(message /= '', 'a part of it is refused')
        text(at + 1:at + 1) = achar(ieor(iachar(text(at + 1:at + 1)), 1))
        call read_text(text)
        call expect(message /= '', 'and so is one with another bit')
        text(at + 1:at + 1) = achar(ieor(iachar(text(at + 1:at + 1)), 1))
    end do

    kept%targets = [character(64) :: '3', 'osd.1']
    call read_text(record_text(kept))
    call expect(message == '' .and. all(found%targets == kept%targets), 'targets')

    kept%pattern = '--order strided'
    call read_text(record_text(kept))
    call expect(index(message, 'of --order strided') > 0, 'only whole blocks are read by others')

    text = record_text(kept)
    text = text(:index(text, '! checksum ') - 1)
    at = index(text, 'FORMAT=3')
    call expect(at > 0, 'the format is the first number')
    text(at:at + 7) = 'FORMAT=9'
    call read_text(text//'! checksum '//decimal(key_of_text(text))//new_line('a'))
    call expect(index(message, 'it has format 9') == 1, 'and a format that is known')

    ! A file of each node has the ranks that the node has: here of two instances.
    kept%pattern = ''
    kept%files = 'node'
    kept%instances = 2
    kept%file_count = 3
    kept%first_rank = [0, 1, 3]
    kept%sharers = [1, 2, 3]
    call read_text(record_text(kept))
    call expect(message == '' .and. all(file_facts(found, 1) == [1, 2, 1, 2]) &
        .and. all(file_facts(found, 2) == [3, 3, 0, 1]), 'files of nodes')
    kept%files = 'process'
    kept%file_count = 6
    call expect(all(file_facts(kept, 4) == [4, 1, 1, 3]), 'files of ranks')
    call MPI_Finalize()

contains

    !> Reads a record that has this text.
    subroutine read_text(text)
        character(*), intent(in) :: text

        character(*), parameter :: path = 'test_kept_files.nml'
        type(failure) :: error
        integer :: unit

        open (newunit=unit, file=path, access='stream', form='unformatted', status='replace')
        write (unit) text
        close (unit)
        call read_record(path, found, error)
        message = ''
        if (error%failed()) message = error%message
        open (newunit=unit, file=path)
        close (unit, status='delete')
    end subroutine read_text

end program test_kept_files
