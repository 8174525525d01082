!> The run's own directory: made once, refused where it is already, removed when it is empty.
program test_run_directory
    use mpi_f08, only: MPI_COMM_WORLD, MPI_Finalize, MPI_Init
    use benchio_failure, only: exit_io, failure
    use benchio_posix, only: look_for, remove_file, write_file
    use benchio_run_directory, only: check_room, choose_run_id, inspect_target, &
        make_run_directory, remove_run_directory, target_directory
    use benchio_striping, only: striping
    use check, only: expect
    implicit none (type, external)

    type(target_directory) :: place
    type(failure) :: error
    character(:), allocatable :: other, path, run_id, text

    call MPI_Init()
    call inspect_target('/nosuch', '', MPI_COMM_WORLD, place, error)
    call expect(error%status == exit_io .and. error%call == 'realpath', 'it must exist')
    error = failure()
    call inspect_target('.', 'nosuch,neither', MPI_COMM_WORLD, place, error)
    call expect(index(error%line(), ', not nosuch,neither') > 0, 'and be of an allowed type')
    error = failure()
    call inspect_target('.', '', MPI_COMM_WORLD, place, error)
    call expect(.not. error%failed() .and. place%path(1:1) == '/', 'this one is')

    call check_room(place, place%free_bytes/2, 1, MPI_COMM_WORLD, error)
    call expect(.not. error%failed(), 'half of what is free fits')
    call check_room(place, place%free_bytes/2, 2, MPI_COMM_WORLD, error)
    call expect(index(error%line(), 'bytes needed') > 0, 'with headers, twice the half does not')
    error = failure()
    call check_room(place, huge(place%free_bytes), 2, MPI_COMM_WORLD, error)
    call expect(index(error%line(), 'more than 2^63 - 1 bytes') > 0, 'nor more than can be counted')
    error = failure()

    call choose_run_id('tonight', MPI_COMM_WORLD, run_id, error)
    call expect(run_id == 'tonight', 'an id that was asked for')
    call choose_run_id('', MPI_COMM_WORLD, other, error)
    call choose_run_id('', MPI_COMM_WORLD, run_id, error)
    call expect(len(run_id) == 16 .and. verify(run_id, '0123456789abcdef') == 0 &
        .and. run_id /= other, 'else another each time')

    call make_run_directory(place, run_id, striping(), .true., MPI_COMM_WORLD, error)
    call expect(.not. error%failed() .and. place%run_path == place%path//'/benchio.'//run_id, &
        'is made')
    path = place%path_of('hdf5', 'h5', 0, 1)
    call expect(path == place%run_path//'/hdf5.h5', 'one file has no number')
    call expect(place%path_of('mpiio', 'dat', 12, 13) == place%run_path//'/mpiio.000012.dat', &
        'several have')
    other = place%run_path
    call make_run_directory(place, run_id, striping(), .true., MPI_COMM_WORLD, error)
    call expect(error%call == 'mkdir' .and. index(error%message, '--run-id') > 0 &
        .and. place%run_path == '', 'is not made again: '//error%line())
    error = failure()
    place%run_path = other

    call write_file(path, 'left', text)
    call remove_run_directory(place, text)
    call expect(text == 'not empty: hdf5.h5 is left', 'what is left is named: '//text)
    call remove_file(path, text)
    call remove_run_directory(place, text)
    call expect(text == '' .and. .not. is_there(place%run_path), 'is removed')
    call remove_run_directory(place, text)
    call expect(text /= '', 'is removed once')

    place%filesystem = 'ext4'
    call make_run_directory(place, run_id, striping(count=2), .true., MPI_COMM_WORLD, error)
    call expect(index(error%line(), 'ext4, not lustre') > 0 .and. .not. is_there(other), &
        'without its stripes there is none')
    error = failure()
    place%path = '/proc'
    call make_run_directory(place, run_id, striping(), .true., MPI_COMM_WORLD, error)
    call expect(error%call == 'mkdir' .and. index(error%message, '--run-id') == 0, &
        'nor where none can be made: '//error%line())
    call MPI_Finalize()

contains

    logical function is_there(path) result(exists)
        character(*), intent(in) :: path

        character(:), allocatable :: message

        call look_for(path, exists, message)
    end function is_there

end program test_run_directory
