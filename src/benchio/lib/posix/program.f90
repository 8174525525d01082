!> Runs a program of the system, such as lfs, and says in a sentence what went wrong.
module benchio_program
    use, intrinsic :: iso_c_binding, only: c_char, c_int, c_int32_t, c_null_char
    use benchio_posix, only: fortran_text, text_of
    use benchio_text, only: decimal, one_line
    implicit none (type, external)
    private

    public :: blanks_to_words, run_program, word

    !> Seconds a program may take. It asks one server one thing, so it takes a moment or hangs.
    integer, parameter :: time_limit = 60

    interface
        integer(c_int) function c_run_program(words, seconds, output, complaint, size) &
            bind(C, name='benchio_run_program')
            import :: c_char, c_int, c_int32_t
            character(kind=c_char), intent(in) :: words(*)
            integer(c_int32_t), value :: seconds, size
            character(kind=c_char), intent(out) :: output(*), complaint(*)
        end function c_run_program
    end interface

contains

    !> A word of a command line as run_program takes it.
    pure function word(text)
        character(*), intent(in) :: text
        character(:), allocatable :: word

        word = trim(text)//c_null_char
    end function word

    !> The words of a text between its blanks; a quote has no meaning.
    pure function blanks_to_words(text) result(words)
        character(*), intent(in) :: text
        character(:), allocatable :: words

        character(:), allocatable :: rest
        integer :: blank

        words = ''
        rest = trim(adjustl(text))
        do while (rest /= '')
            blank = index(rest//' ', ' ')
            words = words//word(rest(:blank - 1))
            rest = trim(adjustl(rest(min(blank, len(rest) + 1):)))
        end do
    end function blanks_to_words

    !> Runs a program and waits, at most a minute; error is empty, or a sentence on why it did not
    !> end well, with its own words.
    subroutine run_program(words, output, error)
        character(*), intent(in) :: words       !! each made by word, the program's name first
        character(:), allocatable, intent(out) :: output    !! what it said, its first 16 KiB
        character(:), allocatable, intent(out) :: error

        character(kind=c_char) :: complaint(16384), said(16384)
        character(:), allocatable :: name
        integer :: status

        name = words(:index(words, c_null_char) - 1)
        status = c_run_program(words//c_null_char, int(time_limit, c_int32_t), said, complaint, &
            size(said, kind=c_int32_t))
        output = fortran_text(said)
        error = ''
        if (status < 0) then
            error = 'the program '//name//' cannot be run on this node: '//text_of(-status)
        else if (status > 0) then
            error = one_line(fortran_text(complaint))
            if (error == '') error = one_line(output)
            error = 'exit status '//decimal(status)//': '//trim(adjustl(error))
        end if
    end subroutine run_program

end module benchio_program
