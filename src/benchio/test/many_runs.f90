!> Many runs in one start, for tests of what fails below benchio: a start of MPI takes ten times as
!> long as a small run. tests/many_runs.py writes the list and reads what is printed.
!>
!> A line of the list is a run: words parted by tabs, first the variables of its environment, each
!> NAME=VALUE, then "benchio" and its options. Before each run a preloaded fault injector forgets
!> what it has counted, if it has a next_run. A run says as much as the program benchio does,
!> between two lines of the two standard streams: "run N begins" and "run N ends with STATUS".
!> Whatever ends a process ends the list.
program many_runs
    use, intrinsic :: iso_c_binding, only: c_associated, c_char, c_f_procpointer, c_funptr, c_int, &
        c_int32_t, c_null_char, c_null_ptr, c_ptr
    use, intrinsic :: iso_fortran_env, only: error_unit, output_unit
    use mpi_f08, only: MPI_Barrier, MPI_Comm, MPI_Comm_dup, MPI_Comm_rank, MPI_COMM_WORLD, &
        MPI_Init_thread, MPI_THREAD_FUNNELED
    use benchio_command_line, only: argument, parse_options
    use benchio_failure, only: exit_ok, failure
    use benchio_posix, only: exit_at_once
    use benchio_result, only: run_result
    use benchio_run, only: perform
    use benchio_text, only: decimal
    use benchio_watchdog, only: catch_ends, start_watchdog
    use check, only: expect
    implicit none (type, external)

    character(1), parameter :: tab = achar(9)

    interface
        integer(c_int) function setenv(name, value, replaces) bind(C)
            import :: c_char, c_int
            character(kind=c_char), intent(in) :: name(*), value(*)
            integer(c_int), value :: replaces
        end function setenv

        integer(c_int) function unsetenv(name) bind(C)
            import :: c_char, c_int
            character(kind=c_char), intent(in) :: name(*)
        end function unsetenv

        type(c_funptr) function dlsym(library, name) bind(C)
            import :: c_char, c_funptr, c_ptr
            type(c_ptr), value :: library
            character(kind=c_char), intent(in) :: name(*)
        end function dlsym

        subroutine next_run() bind(C)
        end subroutine next_run
    end interface

    procedure(next_run), pointer :: forget => null()
    type(c_funptr) :: address
    type(failure) :: error
    type(MPI_Comm) :: comm
    character(16384) :: line, path
    integer :: list, number, rank, status

    call catch_ends(0_c_int32_t)
    call MPI_Init_thread(MPI_THREAD_FUNNELED, status)
    call MPI_Comm_dup(MPI_COMM_WORLD, comm)
    call MPI_Comm_rank(comm, rank)
    call start_watchdog(comm, error)
    call expect(.not. error%failed(), 'a thread for the watchdog')
    address = dlsym(c_null_ptr, 'next_run'//c_null_char)
    if (c_associated(address)) call c_f_procpointer(address, forget)
    call get_command_argument(1, path)
    open (newunit=list, file=path, status='old', action='read')
    number = 0
    do
        read (list, '(a)', iostat=status) line
        if (status /= 0) exit
        number = number + 1
        call tell('run '//decimal(number)//' begins')
        if (associated(forget)) call forget()
        call run_line(trim(line), status)
        call tell('run '//decimal(number)//' ends with '//decimal(status))
        call MPI_Barrier(comm)
    end do
    ! HDF5 would close what runs have had to leave open.
    call exit_at_once(exit_ok)

contains

    subroutine tell(text)
        character(*), intent(in) :: text

        if (rank /= 0) return
        write (output_unit, '(a)') text
        write (error_unit, '(a)') text
        flush (output_unit)
        flush (error_unit)
    end subroutine tell

    !> Does one line of the list, in an environment of its own. Collective.
    subroutine run_line(words, status)
        character(*), intent(in) :: words
        integer, intent(out) :: status

        type(argument), allocatable :: variables(:), arguments(:)
        character(:), allocatable :: before, rest, word
        integer :: next
        logical :: is_option

        allocate (variables(0), arguments(0))
        is_option = .false.
        rest = words//tab
        do while (len(rest) > 0)
            next = index(rest, tab)
            word = rest(:next - 1)
            rest = rest(next + 1:)
            if (is_option) then
                arguments = [arguments, argument(word)]
            else if (word == 'benchio') then
                is_option = .true.
            else
                call exchange(word, before)
                variables = [variables, argument(before)]
            end if
        end do
        call run_benchio(arguments, status)
        do next = 1, size(variables)
            call exchange(variables(next)%text, before)
        end do
    end subroutine run_line

    !> Sets a variable, NAME=VALUE, or removes it, NAME; `before` would set it back.
    subroutine exchange(word, before)
        character(*), intent(in) :: word
        character(:), allocatable, intent(out) :: before

        character(:), allocatable :: name, value
        integer :: code, length

        name = word
        if (index(word, '=') > 0) name = word(:index(word, '=') - 1)
        before = name
        call get_environment_variable(name, length=length, status=code)
        if (code == 0) then
            allocate (character(length) :: value)
            call get_environment_variable(name, value)
            before = name//'='//value
        end if
        if (name == word) then
            code = unsetenv(name//c_null_char)
        else
            code = setenv(name//c_null_char, word(len(name) + 2:)//c_null_char, 1)
        end if
        call expect(code == 0, 'the environment takes '//word)
    end subroutine exchange

    !> Does a run as the program benchio does. Collective.
    subroutine run_benchio(arguments, status)
        type(argument), intent(in) :: arguments(:)
        integer, intent(out) :: status

        type(run_result) :: run
        character(:), allocatable :: message

        call parse_options(arguments, run%choice, message)
        call expect(message == '', message)
        call perform(run, comm)
        status = run%error%status
    end subroutine run_benchio

end program many_runs
