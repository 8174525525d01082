!> Layouts as a Lustre 2.17 gave them, and some laid out by hand after lustre_user.h.
program test_striping
    use, intrinsic :: iso_fortran_env, only: int64, int8
    use mpi_f08, only: MPI_Finalize, MPI_Init
    use benchio_failure, only: exit_io, failure
    use benchio_striping, only: check_striping, decode_layout, set_striping, setstripe_words, &
        striping, striping_matches, unset
    use check, only: expect
    implicit none (type, external)

    integer, parameter :: v1(*) = [int(z'd0'), int(z'0b'), int(z'd1'), int(z'0b')]
    integer, parameter :: v3(*) = [int(z'd0'), int(z'0b'), int(z'd3'), int(z'0b')]
    integer, parameter :: raid0(*) = [1, 0, 0, 0], generation(*) = [7, 0]
    integer :: i
    integer, parameter :: object_id(*) = [(200 + i, i=1, 16)], pool_name(*) = [(97, i=1, 16)]
    integer, parameter :: of_4_mib(*) = [0, 0, 64, 0], of_2_gib(*) = [0, 0, 0, 128]
    integer, parameter :: ost_258(*) = [object_id, 0, 0, 0, 0, 2, 1, 0, 0]
    integer, parameter :: ost_9(*) = [object_id, 0, 0, 0, 0, 9, 0, 0, 0]

    !> Recorded: `lfs setstripe -c 2`, `-p fast`, a progressive layout of 1, 2 and all OSTs and data
    !> on the metadata server before 2 OSTs, each of a file of few bytes; and directories.
    character(*), parameter :: two = &
        'd00bd10b0100000008000000000000000104000002000000000010000200ffff0004000003000000' &
        //'02000000000000000000000003000000000400400200000002000000000000000000000000000000'
    character(*), parameter :: pool = &
        'd00bd30b0100000019000000000000000104000002000000000020000200ffff6661737400000000' &
        //'0000000000000000000400800200000006000000000000000000000001000000000400c002000000' &
        //'07000000000000000000000002000000'
    character(*), parameter :: progressive = &
        'd00bd60b280100000300000000000300000000000000000000000000000000000100000010000000' &
        //'00000000000000000000100000000000b00000003800000000000000000000000000000000000000' &
        //'020000000000000000001000000000000000000100000000e8000000200000000000000000000000' &
        //'000000000000000003000000000000000000000100000000ffffffffffffffff0801000020000000' &
        //'00000000000000000000000000000000d00bd10b0100000000000000000000000000000000000000' &
        //'000010000100ffff000400400200000005000000000000000000000000000000d00bd10b01000000' &
        //'00000000000000000000000000000000000020000200ffffd00bd10b010000000000000000000000' &
        //'000000000000000000004000ffffffff'
    character(*), parameter :: on_mdt = &
        'd00bd60bc00000000200000000000200000000000000000000000000000000000100000010000000' &
        //'00000000000000000000010000000000800000002000000000000000000000000000000000000000' &
        //'02000000000000000000010000000000ffffffffffffffffa0000000200000000000000000000000' &
        //'0000000000000000d00bd10b0001000000000000000000000000000000000000000001000000ffff' &
        //'d00bd10b0100000000000000000000000000000000000000000010000200ffff'
    character(*), parameter :: directory = &
        'd00bd10b0100000000000000000000000000000000000000000010000400ffff'
    character(*), parameter :: progressive_directory = &
        'd00bd60b100100000000000000000300000000000000000000000000000000000000000000000000' &
        //'00000000000000000000100000000000b00000002000000000000000000000000000000000000000' &
        //'000000000000000000001000000000000000000100000000d0000000200000000000000000000000' &
        //'000000000000000000000000000000000000000100000000fffffffffffffffff000000020000000' &
        //'00000000000000000000000000000000d00bd10b0100000081fa0100000000000000000000000000' &
        //'000010000100ffffd00bd10b0100000061fa0100000000000000000000000000000020000200ffff' &
        //'d00bd10b0100000041fa010000000000000000000000000000004000ffffffff'

    character(1), parameter :: nul = achar(0)
    type(failure) :: error
    type(striping) :: found
    integer(int8), allocatable :: grown(:)
    logical :: is_known

    call decode(recorded(two))
    call expect(is_known .and. same(found, 2_int64, 1048576_int64, 3_int64), 'two OSTs')
    call decode(recorded(pool))
    call expect(is_known .and. same(found, 2_int64, 2097152_int64, 1_int64), 'of a pool')
    call decode(recorded(progressive))
    call expect(is_known .and. same(found, 1_int64, 1048576_int64, 0_int64), &
        'the only component that has its objects')
    call decode(recorded(on_mdt))
    call expect(is_known .and. same(found, 0_int64, 65536_int64, unset), 'no OST yet')
    call decode(recorded(directory))
    call expect(is_known .and. same(found, 4_int64, 1048576_int64, unset), 'of a directory')
    call decode(recorded(progressive_directory))
    call expect(.not. (is_known .or. found%is_set()), 'no component has objects')

    ! The same file when it has grown: its last component, on two OSTs, has objects.
    grown = [recorded(progressive), bytes([ost_258, ost_9])]
    call decode_layout(grown, found, is_known)
    call expect(same(found, 1_int64, 1048576_int64, 0_int64), 'not grown yet')
    grown(133:133) = 16_int8                ! the third entry: its flags
    grown(157:157) = grown(157:157) + 48_int8   ! and the size of its layout,
    grown(293:294) = bytes([2, 0])          ! in which is the count
    call decode_layout(grown, found, is_known)
    call expect(is_known .and. same(found, 2_int64, 4194304_int64, 258_int64), &
        'the last component that has objects')
    call decode_layout(grown(:size(grown) - 1), found, is_known)
    call expect(.not. (is_known .or. found%is_set()), 'a component that is cut off')
    call decode_layout(grown(:130), found, is_known)
    call expect(.not. (is_known .or. found%is_set()), 'entries that are cut off')

    call decode(bytes([v1, raid0, object_id, of_4_mib, 2, 0, generation, ost_258, ost_9]))
    call expect(is_known, 'version 1')
    call expect(same(found, 2_int64, 4194304_int64, 258_int64), 'is decoded')

    call decode(bytes([v3, raid0, object_id, of_2_gib, 44, 1, generation, pool_name, ost_9]))
    call expect(is_known, 'version 3')
    call expect(same(found, 300_int64, 2147483648_int64, 9_int64), &
        'is decoded after its pool name, without signs')

    call decode(bytes([v3, raid0, object_id, of_4_mib, 255, 255, generation, pool_name]))
    call expect(same(found, -1_int64, 4194304_int64, unset), &
        'all OSTs, the first of which is not known')

    call decode(bytes([v1, raid0, object_id, of_4_mib, 1, 0]))
    call expect(.not. (is_known .or. found%is_set()), 'too short')
    call decode(bytes([integer ::]))
    call expect(.not. (is_known .or. found%is_set()), 'empty')
    call decode(bytes([(mod(37*i, 256), i=1, 80)]))
    call expect(.not. (is_known .or. found%is_set()), 'garbage')

    found = striping(4, 1048576, 2)
    call expect(striping_matches(striping(), found), 'nothing asked for')
    call expect(striping_matches(striping(count=4, size=1048576, offset=2), found), 'all as asked')
    call expect(.not. striping_matches(striping(count=3), found), 'another count')
    call expect(.not. striping_matches(striping(count=4, size=65536), found), 'another size')
    call expect(.not. striping_matches(striping(count=4, offset=0), found), 'another first OST')
    call expect(striping_matches(striping(count=-1), found), 'all OSTs')
    call expect(.not. striping_matches(striping(count=-1), striping(1, 1048576, 2)), 'but one')
    call expect(.not. striping_matches(striping(offset=0), striping(4, 1048576)), &
        'the first OST not known')

    call expect(setstripe_words('/a b/it''s', striping(-1, 1048576, 2)) == 'lfs'//nul &
        //'setstripe'//nul//'-c'//nul//'-1'//nul//'-S'//nul//'1048576'//nul//'-i'//nul//'2'//nul &
        //'/a b/it''s'//nul//nul, 'word for word')
    call expect(setstripe_words('/a', striping(size=65536)) == 'lfs'//nul//'setstripe'//nul//'-S' &
        //nul//'65536'//nul//'/a'//nul//nul, 'only what was asked for')
    found = striping(count=4, offset=0)
    call expect(found%line() == 'count 4, offset 0', 'as a line')
    found = striping()
    call expect(found%line() == '', 'an empty line')

    call MPI_Init()     ! a failure knows its rank
    call set_striping('/a', striping(), 'ext4', error)
    call expect(.not. error%failed(), 'nothing to set')
    call set_striping('/a', striping(count=4), 'ext4', error)
    call expect(error%status == exit_io, 'not on Lustre')
    call expect(error%line() == 'rank 0: lfs setstripe: /a: stripe settings were asked for, ' &
        //'but the directory is on ext4, not lustre', 'is said')

    error = failure()
    call check_striping('/dev/null', striping(), found, is_known, error)
    call expect(.not. (is_known .or. error%failed()), 'no striping off Lustre')
    call check_striping('/dev/null', striping(count=1), found, is_known, error)
    call expect(error%status == exit_io, 'so none can be asked for')
    error = failure()
    call check_striping('/no such file', striping(count=1), found, is_known, error)
    call expect(error%call == 'lgetxattr' .and. .not. is_known, 'no such file')
    call MPI_Finalize()

contains

    subroutine decode(attribute)
        integer(int8), intent(in) :: attribute(:)

        call decode_layout(attribute, found, is_known)
    end subroutine decode

    !> The bytes of hexadecimal digits.
    pure function recorded(digits) result(attribute)
        character(*), intent(in) :: digits
        integer(int8) :: attribute(len(digits)/2)

        integer :: i, values(len(digits)/2)

        read (digits, '(*(z2))') values
        attribute = [(bytes(values(i:i)), i=1, size(values))]
    end function recorded

    !> From 0 to 255 each.
    pure function bytes(values)
        integer, intent(in) :: values(:)
        integer(int8) :: bytes(size(values))

        bytes = int(values - 256*(values/128), int8)
    end function bytes

    pure logical function same(of, count, size, offset)
        type(striping), intent(in) :: of
        integer(int64), intent(in) :: count, size, offset

        same = of%count == count .and. of%size == size .and. of%offset == offset
    end function same

end program test_striping
