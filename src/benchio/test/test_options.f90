!> The command line: wrong values are named in one sentence.
program test_options
    use, intrinsic :: iso_fortran_env, only: int64
    use mpi_f08, only: MPI_MAX_INFO_KEY, MPI_MAX_INFO_VAL
    use benchio_command_line, only: argument, help_text, parse_options
    use benchio_options, only: layout_requests, options, plan_array
    use check, only: expect
    use command_lines, only: words
    implicit none (type, external)

    type(options) :: choice
    character(:), allocatable :: error

    call parse('')
    call expect(error == '' .and. choice%repeats == 10 .and. choice%files == 'shared' &
        .and. all(choice%local_size == 128) .and. choice%settings%transfer_bytes == 2_int64**30 &
        .and. choice%run_id == '' .and. choice%directory == '.' .and. choice%settings%collective, &
        'defaults')
    call expect(index(help_text(), '(1GiB)') > 0 .and. index(help_text(), '(128)') > 0, &
        'are in the help')
    call expect(explained_options() > 30, 'as is every option, and each is parsed')
    call expect(longest_line(help_text()) <= 88, 'which fits a screen')
    call parse('--backend mpiio,hdf5 --local-size=8x16x32 --grid 1x2x2 --halo 0 --flush')
    call expect(error == '' .and. all(choice%backends == ['mpiio   ', 'hdf5    ']) &
        .and. all(choice%local_size == [8, 16, 32]) .and. choice%settings%flush, &
        'both forms of values')
    call plan_array(choice, 4_int64, error)
    call expect(error == '' .and. all(choice%global_size == [8, 32, 64]), 'weak scaling')
    call parse('--order random --local-size 5')
    call plan_array(choice, 3_int64, error)
    call expect(error == '' .and. all(choice%grid == [3, 1, 1]), 'rows of all writers take turns')
    call parse('--order random --steps 3 --variables=2 --deflate 9 --quantize 15 --nonblocking ' &
        //'--subfiles 1 --backend hdf5')
    call expect(error == '' .and. choice%settings%access%text() == '--order random --steps 3 ' &
        //'--variables 2 --deflate 9 --quantize 15 --nonblocking --subfiles 1', 'ways of access')
    call parse('--order blocks --steps 1 --variables 1')
    call expect(error == '' .and. choice%settings%access%text() == '', 'the usual way')
    call parse('--files 007 --setstripe=-C2 --file-format latest --collective no')
    call expect(error == '' .and. choice%files == '7' .and. choice%layout%setstripe == '-C2' &
        .and. choice%settings%latest_format .and. .not. choice%settings%collective, 'words')
    call parse('--run-id='//repeat('aZ09_-7b', 8)//' --flush --direct --settle 3')
    call expect(error == '' .and. choice%run_id == repeat('aZ09_-7b', 8) .and. choice%settle == 3 &
        .and. choice%settings%flush .and. choice%settings%direct, 'the longest id, and switches')
    call parse('--backend posix --targets 12,osd.2 --stripe-size 64KiB')
    call expect(error == '' .and. choice%layout%stripe_size == 65536, 'a stripe''s size')
    associate (requests => layout_requests(choice))
        call expect(size(requests) == 2 .and. requests(2)%target == 'osd.2' &
            .and. requests(2)%stripe_size == 65536, 'of each target')
    end associate
    call parse('--stripe-count -1 --pool fast --mdt-index 2')
    call expect(error == '' .and. size(layout_requests(choice)) == 1 .and. choice%mdt_index == 2 &
        .and. choice%layout%line() == 'stripe count -1, pool fast', 'one layout')
    call parse('--operation metadata --items 7 --files process --backend posix --mdt-index 1')
    call expect(error == '' .and. all(choice%operations == 'metadata') .and. choice%items == 7 &
        .and. all(choice%local_size == 1) .and. choice%halo == 0, 'names, and no array')
    call parse('--operation metadata')
    call expect(error == '' .and. all(choice%backends == 'posix'), 'which need no library')
    call parse('--operation latency --seconds 5 --mdt-index 1')
    call expect(error == '' .and. all(choice%operations == 'latency') .and. choice%seconds == 5 &
        .and. all(choice%backends == 'posix') .and. all(choice%local_size == 1), 'single calls')
    call refused('--operation latency,read', 'latency alone')
    call refused('--operation latency --files process', 'leave out --files')
    call refused('--operation latency --transfer 8', '--operation latency writes no array')
    call refused('--seconds 5', '--seconds is for --operation latency')
    call refused('--operation latency --seconds 601', '"601"')
    call refused('--operation metadata,write', 'latency alone')
    call refused('--operation metadata --files node', '"node"')
    call refused('--operation metadata --local-size 8', 'leave out --local-size')
    call refused('--chunk 8 --operation metadata', 'leave out --chunk')
    call refused('--items 5', '--items is for --operation metadata')
    call refused('--items 10000000', '"10000000"')
    call transfer('8', 8_int64)
    call transfer('65536', 65536_int64)
    call transfer('1KiB', 1024_int64)
    call transfer('3MiB', 3*2_int64**20)
    call transfer('1GiB', 2_int64**30)
    call parse('--global-size 100')
    call plan_array(choice, 6_int64, error)
    call expect(error == '' .and. all(choice%global_size == 100) &
        .and. product(choice%grid) == 6, 'strong scaling')

    call refused('--bandwidth', '"--bandwidth"')
    call refused('--local-size', 'needs a value')
    call refused('--local-size 0', '"0"')
    call refused('--local-size -4', '"-4"')
    call refused('--local-size 8x8', '"8x8"')
    call refused('--local-size 8x8x', '"8x8x"')
    call refused('--local-size 4x0x4', '"4x0x4"')
    call refused('--local-size 1e3', '"1e3"')
    call refused('--local-size 2147483648', '"2147483648"')
    call refused('--local-size 99999999999999999999', '"99999999999999999999"')
    call refused('--local-size 8 --global-size 8', 'exclude')
    call refused('--grid 4', '"4"')
    call refused('--grid 2x1', '"2x1"')
    call refused('--items 0', '"0"')
    call refused('--grid 2x0x1', '"2x0x1"')
    call refused('--chunk 0x4x4', '"0x4x4"')
    call refused('--warmup -1', '"-1"')
    call refused('--halo -1', '"-1"')
    call refused('--settle -1', '"-1"')
    call refused('--time-limit -1', '"-1"')
    call refused('--instances 0', '"0"')
    call refused('--alignment 0', '"0"')
    call refused('--steps 0', '"0"')
    call refused('--variables 0', '"0"')
    call refused('--transfer 0', '"0"')
    call refused('--transfer 2GiB', '"2GiB"')
    call refused('--run-id ..', '".."')
    call refused('--backend mpiio,mpiio', 'twice')
    call refused('--repeats 0', '"0"')
    call refused('--repeats ten', '"ten"')
    call refused('--halo 4000000000000000000', '"4000000000000000000"')
    call refused('--files 0', '"0"')
    call refused('--files some', '"some"')
    call refused('--collective maybe', '"maybe"')
    call refused('stray', 'unknown argument "stray"')
    call refused('--run-id=', '--run-id needs a value')
    call refused('--run-id a/b', '"a/b"')
    call refused('--run-id '//repeat('a', 65), 'at most 64 characters')
    call refused('--transfer 7', '"7"')
    call refused('--steps 10001', '"10001"')
    call refused('--order ran', 'takes blocks or strided or random, not "ran"')
    call refused('--order blocks|strided', '"blocks|strided"')
    call refused('--deflate 10', '"10"')
    call refused('--deflate 1 --quantize 2', '"2"')
    call refused('--deflate 1 --quantize 16', '"16"')
    call refused('--quantize 3', '--quantize needs --deflate')
    call refused('--order strided --grid 2x1x1', '--order strided excludes --grid')
    call refused('--steps 2 --nonblocking --files gather', &
        '--files gather excludes --steps 2 --nonblocking:')
    call refused('--subfiles 513', '"513"')
    call refused('--subfiles 2 --files process', 'takes --files shared')
    call refused('--subfiles 2 --instances 2', 'and one instance')
    call refused('--subfiles 2 --operation write-keep', 'write-keep')
    call refused('--transfer 0KiB', '"0KiB"')
    call refused('--transfer 1025MiB', '"1025MiB"')
    call refused('--transfer 1073741825', '"1073741825"')
    call refused('--transfer MiB', '"MiB"')
    call refused('--transfer 1.5MiB', '"1.5MiB"')
    call refused('--transfer 99999999999999999GiB', '"99999999999999999GiB"')
    call refused('--stripe-count 0', '"0"')
    call refused('--stripe-count -2', '"-2"')
    call refused('--stripe-size 1', '65536 to 4294901760 bytes')
    call refused('--pool a/b', '"a/b"')
    call refused('--targets 1,,2', 'empty name')
    call refused('--targets 1,../2', '"../2"')
    call refused('--targets 1,1', 'twice')
    call refused('--targets '//repeat('a', 65), 'at most 64 characters')
    call refused('--setstripe 4', '"4"')
    call refused('--setstripe -C4 --stripe-size 1MiB', '--setstripe excludes')
    call refused('--setstripe -C4 --pool fast', '--setstripe excludes')
    call refused('--targets 1 --stripe-count 1', '--targets excludes')
    call refused('--targets 1 --pool fast', '--targets excludes')
    call refused('--targets 1 --setstripe -C4', '--targets excludes')
    call refused('--targets 1 --mdt-index 0', '--targets excludes')
    call refused('--backend averylongname', '"averylongname"')
    call refused('--flush=yes', 'no value')
    call parse('--operation read,write-keep')
    call expect(error == '' .and. all(choice%operations == ['read ', 'write']) .and. choice%keeps &
        .and. .not. choice%reads_existing, 'what is written is kept')
    call parse('--operation read-existing --grid 1x1x2')
    call expect(error == '' .and. all(choice%operations == ['read']) .and. .not. choice%keeps &
        .and. choice%reads_existing, 'what is there is read')
    call refused('--operation write,write-keep', 'or both')
    call refused('--operation read-existing,write', 'or latency alone')
    call refused('--operation keep', 'not "keep"')
    call refused('--operation read-existing --local-size 128', 'excludes --local-size')
    call refused('--repeats 3 --operation read-existing', 'excludes --repeats')

    call parse_options([argument('')], choice, error)
    call expect(index(error, 'unknown argument ""') == 1, 'nothing is no option: '//error)
    call parse_options([argument('--run-id'), argument('a b')], choice, error)
    call expect(index(error, '"a b"') > 0, 'an id has no blank: '//error)

    call refused_hint('novalue', 'KEY=VALUE')
    call refused_hint('=x', 'KEY=VALUE')
    call refused_hint('key=', 'KEY=VALUE')
    call refused_hint(repeat('k', MPI_MAX_INFO_KEY + 1)//'=x', 'characters of KEY')
    call refused_hint('key='//repeat('v', MPI_MAX_INFO_VAL + 1), 'of VALUE')
    call parse_options([argument('--hint'), argument(repeat('k', MPI_MAX_INFO_KEY)//'=' &
        //repeat('v', MPI_MAX_INFO_VAL))], choice, error)
    call expect(error == '' .and. size(choice%settings%hints) == 1, 'the longest hint')

    call unplannable('--grid 2x2x2', 4_int64, 'multiply to 4')
    call unplannable('--grid 2147483647x2147483647x2147483647', 4_int64, 'multiply to 4')
    call unplannable('--global-size 2', 16_int64, 'more ranks (16)')
    call unplannable('--global-size 2x9x9 --grid 4x1x1', 4_int64, '--grid 4x1x1')
    call unplannable('--local-size 2147483647 --halo 0 --grid 2x1x1', 2_int64, '2^31 - 1')
    call unplannable('--global-size 2147483647 --halo 0', 2_int64, '2^63 - 1')
    call unplannable('--steps 3 --local-size 4', 2_int64, &
        '--steps 3 deals out the elements along z, and 4 are no multiple of 3')

contains

    subroutine parse(line)
        character(*), intent(in) :: line

        call parse_options(words(line), choice, error)
    end subroutine parse

    !> The number of options in the help. One that is not parsed stops the test.
    integer function explained_options() result(number)
        character(:), allocatable :: text, name
        integer :: at

        number = 0
        text = help_text()
        do
            at = index(text, new_line('a')//'  --')
            if (at == 0) exit
            text = text(at + 3:)
            name = text(:scan(text, ' '//new_line('a')) - 1)
            call parse(name//'=1')
            if (index(error, 'takes no value') > 0) call parse(name)
            call expect(index(error, 'unknown') == 0, name//' is known: '//error)
            number = number + 1
        end do
    end function explained_options

    subroutine transfer(size, bytes)
        character(*), intent(in) :: size
        integer(int64), intent(in) :: bytes

        call parse('--transfer '//size)
        call expect(error == '' .and. choice%settings%transfer_bytes == bytes, size//': '//error)
    end subroutine transfer

    pure integer function longest_line(text) result(longest)
        character(*), intent(in) :: text

        integer :: before, i

        longest = 0
        before = 0
        do i = 1, len(text)
            if (text(i:i) /= new_line('a')) cycle
            longest = max(longest, i - before - 1)
            before = i
        end do
    end function longest_line

    subroutine refused(line, reason)
        character(*), intent(in) :: line, reason

        call parse(line)
        call expect(index(error, reason) > 0, line//' is refused for '//reason//': '//error)
    end subroutine refused

    !> Expects that a hint is refused; it may have blanks.
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

end program test_options
