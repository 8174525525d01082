!> Byte sequences laid out by hand after lustre_user.h, and outputs of lfs after its manual.
program test_striping
    use, intrinsic :: iso_fortran_env, only: int64, int8
    use mpi_f08, only: MPI_Finalize, MPI_Init
    use benchio_failure, only: exit_io, failure
    use benchio_striping, only: check_striping, decode_layout, layout_composite, layout_plain, &
        layout_unknown, parse_getstripe, set_striping, setstripe_command, striping, &
        striping_matches, unset
    use check, only: expect
    implicit none (type, external)

    integer, parameter :: v1(*) = [int(z'd0'), int(z'0b'), int(z'd1'), int(z'0b')]
    integer, parameter :: v3(*) = [int(z'd0'), int(z'0b'), int(z'd3'), int(z'0b')]
    integer, parameter :: composite(*) = [int(z'd0'), int(z'0b'), int(z'd6'), int(z'0b')]
    integer, parameter :: raid0(*) = [1, 0, 0, 0], generation(*) = [7, 0]
    integer :: i, kind
    integer, parameter :: object_id(*) = [(200 + i, i=1, 16)], pool_name(*) = [(97, i=1, 16)]
    integer, parameter :: of_4_mib(*) = [0, 0, 64, 0], of_2_gib(*) = [0, 0, 0, 128]
    integer, parameter :: ost_258(*) = [object_id, 0, 0, 0, 0, 2, 1, 0, 0]
    integer, parameter :: ost_9(*) = [object_id, 0, 0, 0, 0, 9, 0, 0, 0]

    type(failure) :: error
    type(striping) :: found
    logical :: is_known

    call decode(bytes([v1, raid0, object_id, of_4_mib, 2, 0, generation, ost_258, ost_9]))
    call expect(kind == layout_plain, 'version 1')
    call expect(same(found, 2_int64, 4194304_int64, 258_int64), 'is decoded')

    call decode(bytes([v3, raid0, object_id, of_2_gib, 44, 1, generation, pool_name, ost_9]))
    call expect(kind == layout_plain, 'version 3')
    call expect(same(found, 300_int64, 2147483648_int64, 9_int64), &
        'is decoded after its pool name, without signs')

    call decode(bytes([v3, raid0, object_id, of_4_mib, 255, 255, generation, pool_name]))
    call expect(same(found, -1_int64, 4194304_int64, unset), &
        'all OSTs, the first of which is not known')

    call decode(bytes([v1, raid0, object_id, of_4_mib, 1, 0, generation]))
    call expect(kind == layout_plain .and. found%offset == unset, 'no objects yet')

    call decode(bytes([composite, (0, i=1, 60)]))
    call expect(kind == layout_composite .and. .not. found%is_set(), 'a composite layout')
    call decode(bytes([v1, raid0, object_id, of_4_mib, 1, 0]))
    call expect(kind == layout_unknown .and. .not. found%is_set(), 'too short')
    call decode(bytes([integer ::]))
    call expect(kind == layout_unknown .and. .not. found%is_set(), 'empty')
    call decode(bytes([(mod(37*i, 256), i=1, 80)]))
    call expect(kind == layout_unknown .and. .not. found%is_set(), 'garbage')

    call parse_getstripe('lmm_stripe_count:  2 lmm_stripe_size:   1048576 ' &
        //'lmm_stripe_offset: 0 lmm_stripe_count:  -1 lmm_stripe_size:   4194304 ' &
        //'lmm_stripe_offset: 3', found, is_known)
    call expect(is_known, 'lfs getstripe')
    call expect(same(found, -1_int64, 4194304_int64, 3_int64), 'the last component counts')
    call parse_getstripe('has no stripe info', found, is_known)
    call expect(.not. is_known, 'lfs getstripe says nothing')
    call parse_getstripe('stripe_count: many stripe_size: 1', found, is_known)
    call expect(.not. is_known, 'lfs getstripe says something else')

    found = striping(4, 1048576, 2)
    call expect(striping_matches(striping(), found), 'nothing asked for')
    call expect(striping_matches(striping(count=4, size=1048576, offset=2), found), 'all as asked')
    call expect(.not. striping_matches(striping(count=3), found), 'another count')
    call expect(.not. striping_matches(striping(count=4, size=65536), found), 'another size')
    call expect(.not. striping_matches(striping(count=4, offset=0), found), 'another first OST')
    call expect(striping_matches(striping(count=0, size=0, offset=-1), found), 'defaults')
    call expect(striping_matches(striping(count=-1), found), 'all OSTs')
    call expect(.not. striping_matches(striping(count=-1), striping(1, 1048576, 2)), 'but one')
    call expect(.not. striping_matches(striping(offset=0), striping(4, 1048576)), &
        'the first OST not known')

    call expect(setstripe_command('/a b/it''s', striping(-1, 1048576, 2)) &
        == 'lfs setstripe -c -1 -S 1048576 -i 2 ''/a b/it''\''''s''', 'quoted for the shell')
    call expect(setstripe_command('/a', striping(size=65536)) == 'lfs setstripe -S 65536 ''/a''', &
        'only what was asked for')
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

        call decode_layout(attribute, kind, found)
    end subroutine decode

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
