!> What the command line may say; wrong values are named in one sentence.
program test_options
    use, intrinsic :: iso_fortran_env, only: int64
    use mpi_f08, only: MPI_MAX_INFO_KEY, MPI_MAX_INFO_VAL
    use benchio_command_line, only: argument, parse_options
    use benchio_options, only: options, plan_array
    use check, only: expect
    implicit none (type, external)

    type(options) :: choice
    character(:), allocatable :: error

    call parse('')
    call expect(error == '' .and. choice%repeats == 10 .and. choice%sync == 'data' &
        .and. choice%verify == 'all' .and. all(choice%local_size == 128), 'defaults')
    call parse('--backend mpiio,hdf5 --local-size=8x16x32 --grid 1x2x2 --halo 0 --keep')
    call expect(error == '' .and. all(choice%backends == ['mpiio   ', 'hdf5    ']) &
        .and. all(choice%local_size == [8, 16, 32]) .and. choice%keep, 'both forms of values')
    call plan_array(choice, 4_int64, error)
    call expect(error == '' .and. all(choice%global_size == [8, 32, 64]), 'weak scaling')
    call parse('--global-size 100')
    call plan_array(choice, 6_int64, error)
    call expect(error == '' .and. all(choice%global_size == 100) &
        .and. product(choice%grid) == 6, 'strong scaling')

    call refused('--bandwidth', '"--bandwidth"')
    call refused('--local-size', 'needs a value')
    call refused('--local-size 0', '"0"')
    call refused('--local-size -4', '"-4"')
    call refused('--local-size 8x8', '"8x8"')
    call refused('--local-size 8x8x8x8', '"8x8x8x8"')
    call refused('--local-size 8x8x', '"8x8x"')
    call refused('--local-size 1e3', '"1e3"')
    call refused('--local-size 2147483648', '"2147483648"')
    call refused('--local-size 99999999999999999999', '"99999999999999999999"')
    call refused('--local-size 8 --global-size 8', 'exclude')
    call refused('--grid 4', '"4"')
    call refused('--repeats 0', '"0"')
    call refused('--halo -1', '"-1"')
    call refused('--sync sometimes', '"sometimes"')
    call refused('--verify maybe', '"maybe"')
    call refused('--backend mpiio,', 'empty name')
    call refused('--backend mpiio,mpiio', 'twice')
    call refused('--backend averylongname', '"averylongname"')
    call refused('--keep=yes', 'no value')

    call refused_hint('novalue', 'KEY=VALUE')
    call refused_hint('=x', 'KEY=VALUE')
    call refused_hint(' =x', 'KEY=VALUE')
    call refused_hint('key=', 'KEY=VALUE')
    call refused_hint('key= ', 'KEY=VALUE')
    call refused_hint(repeat('k', MPI_MAX_INFO_KEY + 1)//'=x', 'characters of KEY')
    call refused_hint('key='//repeat('v', MPI_MAX_INFO_VAL + 1), 'of VALUE')
    call parse_options([argument('--hint'), argument(repeat('k', MPI_MAX_INFO_KEY)//'=' &
        //repeat('v', MPI_MAX_INFO_VAL))], choice, error)
    call expect(error == '' .and. size(choice%settings%hints) == 1, 'the longest hint')

    call unplannable('--grid 2x2x2', 4_int64, 'multiply to 4')
    call unplannable('--grid 2147483647x2147483647x2147483647', 4_int64, 'multiply to 4')
    call unplannable('--global-size 2', 16_int64, 'more writers (16)')
    call unplannable('--global-size 2x9x9 --grid 4x1x1', 4_int64, '--grid 4x1x1')
    call unplannable('--local-size 2147483647 --halo 0 --grid 2x1x1', 2_int64, '2^31 - 1')
    call unplannable('--global-size 2147483647 --halo 0', 2_int64, '2^63 - 1')

contains

    subroutine parse(line)
        character(*), intent(in) :: line

        call parse_options(words(line), choice, error)
    end subroutine parse

    subroutine refused(line, reason)
        character(*), intent(in) :: line, reason

        call parse(line)
        call expect(index(error, reason) > 0, line//' is refused for '//reason//': '//error)
    end subroutine refused

    !> Of hints, which may have blanks.
    subroutine refused_hint(text, reason)
        character(*), intent(in) :: text, reason

        call parse_options([argument('--hint'), argument(text)], choice, error)
        call expect(index(error, reason) > 0, '--hint "'//text//'" is refused: '//error)
    end subroutine refused_hint

    subroutine unplannable(line, writers, reason)
        character(*), intent(in) :: line, reason
        integer(int64), intent(in) :: writers

        call parse(line)
        call expect(error == '', line//' parses: '//error)
        call plan_array(choice, writers, error)
        call expect(index(error, reason) > 0, line//' is refused for '//reason//': '//error)
    end subroutine unplannable

    function words(line) result(list)
        character(*), intent(in) :: line
        type(argument), allocatable :: list(:)

        character(:), allocatable :: rest
        integer :: space

        allocate (list(0))
        rest = trim(line)
        do while (len(rest) > 0)
            space = index(rest//' ', ' ')
            list = [list, argument(rest(:space - 1))]
            rest = rest(min(space, len(rest)) + 1:)
        end do
    end function words

end program test_options
