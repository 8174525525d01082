!> The run's own directory: made once, refused where it is already, removed when it is empty.
program test_run_directory
    use, intrinsic :: iso_fortran_env, only: int64
    use mpi_f08, only: MPI_COMM_WORLD, MPI_Finalize, MPI_Init
    use benchio_failure, only: exit_io, failure
    use benchio_file_layout, only: layout_request
    use benchio_posix, only: attempt, path_exists, remove_file, write_file
    use benchio_run_directory, only: check_room, choose_run_id, inspect_place, &
        make_run_directory, remove_run_directory, run_place
    use check, only: expect
    implicit none (type, external)

    type(run_place) :: place
    type(layout_request) :: default(1)
    type(failure) :: error
    character(:), allocatable :: other, path, run_id, text

    call MPI_Init()
    call inspect_place('/nosuch', '', default, -1, MPI_COMM_WORLD, place, error)
    call expect(error%status == exit_io .and. error%call == 'realpath', 'it must exist')
    error = failure()
    call inspect_place('.', 'nosuch,neither', default, -1, MPI_COMM_WORLD, place, error)
    call expect(index(error%line(), ', not nosuch,neither') > 0, 'and be of an allowed type')
    error = failure()
    call inspect_place('.', '', default, -1, MPI_COMM_WORLD, place, error)
    call expect(.not. error%failed() .and. place%path(1:1) == '/', 'this one is')

    call check_room(place, place%mounted%free_bytes/2, 1_int64, error)
    call expect(.not. error%failed(), 'half of what is free fits')
    call check_room(place, place%mounted%free_bytes/2, 2_int64, error)
    call expect(index(error%line(), 'bytes needed') > 0, 'with headers, twice the half does not')
    error = failure()
    call check_room(place, huge(place%mounted%free_bytes), 2_int64, error)
    call expect(index(error%line(), 'more than 2^63 - 1 bytes') > 0, 'nor more than can be counted')
    error = failure()
    call check_room(place, place%mounted%free_bytes/2, 2_int64**32 + 1, error)
    call expect(index(error%line(), 'more than 2^63 - 1 bytes') > 0, 'nor in so many rounds')
    error = failure()

    call choose_run_id('tonight', MPI_COMM_WORLD, run_id, error)
    call expect(run_id == 'tonight', 'an id that was asked for')
    call choose_run_id('', MPI_COMM_WORLD, other, error)
    call choose_run_id('', MPI_COMM_WORLD, run_id, error)
    call expect(len(run_id) == 16 .and. verify(run_id, '0123456789abcdef') == 0 &
        .and. run_id /= other, 'else another each time')

    call make_run_directory(place, run_id, -1, .true., error)
    call expect(.not. error%failed() .and. place%run_path == place%path//'/benchio.'//run_id, &
        'is made')
    path = place%path_of(1, 'hdf5', 'h5', 0, 1)
    call expect(path == place%run_path//'/hdf5.h5', 'one file has no number')
    call expect(place%path_of(1, 'mpiio', 'dat', 12, 13) == place%run_path//'/mpiio.000012.dat', &
        'several have')
    call expect(place%path_of(1, 'mpiio', 'dat', 1000000, 1000001) == place%run_path &
        //'/mpiio.1000000.dat', 'and more than a million, too')
    other = place%run_path
    call make_run_directory(place, run_id, -1, .true., error)
    call expect(error%call == 'mkdir' .and. index(error%message, '--run-id') > 0 &
        .and. place%run_path == '', 'is not made again: '//error%line())
    error = failure()
    place%run_path = other

    call write_file(path, 'left', text)
    call remove_run_directory(place, text)
    call expect(text == 'not empty: hdf5.h5 is left', 'what is left is named: '//text)
    call attempt(remove_file, path, text)
    call remove_run_directory(place, text)
    call expect(text == '' .and. .not. is_there(place%run_path), 'is removed')
    call remove_run_directory(place, text)
    call expect(text /= '', 'is removed once')

    call inspect_place('.', '', [layout_request(stripe_count=2)], -1, MPI_COMM_WORLD, place, error)
    call expect(index(error%line(), 'a layout was asked for') > 0, 'no layout but on Lustre and ' &
        //'CephFS: '//error%line())
    error = failure()
    call inspect_place('.', '', default, 1, MPI_COMM_WORLD, place, error)
    call expect(index(error%line(), 'on Lustre and CephFS only') > 0, 'and no metadata target')
    error = failure()
    call inspect_place('.', '', default, -1, MPI_COMM_WORLD, place, error)
    place%path = '/proc'
    call make_run_directory(place, run_id, -1, .true., error)
    call expect(error%call == 'mkdir' .and. index(error%message, '--run-id') == 0, &
        'nor where none can be made: '//error%line())
    call MPI_Finalize()

contains

    logical function is_there(path) result(exists)
        character(*), intent(in) :: path

        character(:), allocatable :: message

        call path_exists(path, exists, message)
    end function is_there

end program test_run_directory
