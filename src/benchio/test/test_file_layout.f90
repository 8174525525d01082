!> Layouts as a Lustre 2.17 and a CephFS 16.2 gave them, and some laid out by hand after
!> lustre_user.h; what may be asked of which filesystem, and how.
program test_file_layout
    use, intrinsic :: iso_fortran_env, only: int64, int8
    use mpi_f08, only: MPI_Finalize, MPI_Init
    use benchio_cephfs, only: layout_text, parse_layout
    use benchio_failure, only: exit_io, failure
    use benchio_file_layout, only: check_layout, component, file_layout, layout_keeper, &
        layout_request, mismatch, unset
    use benchio_lustre, only: decode_layout, places_in, setstripe_words
    use benchio_other_layouts, only: choose_layout_keeper
    use benchio_mount, only: mounted_filesystem
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
    integer(int64), parameter :: small = 4
    class(layout_keeper), allocatable :: keeper
    type(failure) :: error
    type(component) :: one
    type(file_layout) :: found
    type(layout_request) :: request
    integer(int8), allocatable :: grown(:)
    integer(int64), allocatable :: osts(:), places(:)
    character(:), allocatable :: text

    call decode_layout(recorded(two), small, found)
    call expect(holds(2, 1048576, [3, 0]) .and. size(found%components) == 1, 'two OSTs')
    call places_in(found%holder, 5*2_int64**20 + 1, places, osts)
    call expect(all(places == [8, 9]*2_int64**20) .and. all(osts == [3, 0]), &
        'a place behind the file in each stripe')
    found%holder%end_byte = 7*2_int64**20
    call places_in(found%holder, 5*2_int64**20 + 1, places, osts)
    call expect(all(places == [5, 6]*2_int64**20) .and. all(osts == [0, 3]), &
        'at the end of a component, where that comes before, whichever stripe is first there')
    call decode_layout(recorded(directory), small, found)
    call places_in(found%holder, small, places, osts)
    call expect(size(places) == 0 .and. size(osts) == 0, 'without objects no place')
    call decode_layout(recorded(pool), small, found)
    call expect(holds(2, 2097152, [1, 2]) .and. found%holder%pool == 'fast', 'of a pool')
    call decode_layout(recorded(progressive), small, found)
    call expect(holds(1, 1048576, [0]) .and. found%holder%end_byte == 1048576, &
        'the only component that has its objects')
    call expect(size(found%components) == 3, 'of three')
    associate (last => found%components(3))
        call expect(.not. last%is_instantiated .and. last%stripe_count == -1 &
            .and. last%first_byte == 16777216 .and. last%end_byte == unset &
            .and. size(last%osts) == 0, 'the last of which, to the end, may yet grow')
    end associate
    call decode_layout(recorded(on_mdt), small, found)
    call expect(holds(0, 65536, [integer ::]) .and. found%holder%pattern == 'mdt', 'no OST yet')
    call decode_layout(recorded(directory), small, found)
    call expect(holds(4, 1048576, [integer ::]), 'of a directory')
    call decode_layout(recorded(progressive_directory), small, found)
    call expect(.not. found%is_known .and. size(found%components) == 3, 'no component has objects')

    ! The same file when it has grown: its last component, on two OSTs, has objects.
    grown = [recorded(progressive), bytes([ost_258, ost_9])]
    grown(133:133) = 16_int8                ! the third entry: its flags
    grown(157:157) = grown(157:157) + 48_int8   ! and the size of its layout,
    grown(293:294) = bytes([2, 0])          ! in which is the count
    call decode_layout(grown, 16777216_int64, found)
    call expect(holds(1, 1048576, [0]), 'it has no bytes yet')
    call decode_layout(grown, 2_int64**30, found)
    call expect(holds(2, 4194304, [258, 9]), 'now it holds most of them')
    call decode_layout(grown, 17000000_int64, found)
    call expect(holds(1, 1048576, [0]), 'the second has no objects, and the third few bytes')
    grown(37:37) = 17_int8                  ! the first entry's flags: a stale mirror
    call decode_layout(grown, small, found)
    call expect(holds(2, 4194304, [258, 9]), 'a stale mirror holds nothing')
    call decode_layout(grown(:size(grown) - 1), small, found)
    call expect(.not. found%is_known .and. size(found%components) == 0, 'a component is cut off')
    call decode_layout(grown(:130), small, found)
    call expect(.not. found%is_known, 'entries are cut off')

    call decode_layout(bytes([v1, raid0, object_id, of_4_mib, 2, 0, generation, ost_258, ost_9]), &
        small, found)
    call expect(holds(2, 4194304, [258, 9]) .and. found%holder%pattern == 'raid0', 'version 1')
    call decode_layout(bytes([v1, 1, 2, 0, 0, object_id, of_4_mib, 2, 0, generation, ost_9, &
        ost_9]), small, found)
    call expect(holds(2, 4194304, [9, 9]) .and. found%holder%pattern == 'overstriped', &
        'two stripes on one OST')
    call decode_layout(bytes([v3, raid0, object_id, of_2_gib, 44, 1, generation, pool_name, &
        ost_9]), small, found)
    call expect(found%is_known .and. found%holder%stripe_count == 300 &
        .and. found%holder%stripe_size == 2147483648_int64, 'version 3, without signs')
    call decode_layout(bytes([v3, raid0, object_id, of_4_mib, 255, 255, generation, pool_name]), &
        small, found)
    call expect(holds(-1, 4194304, [integer ::]), 'all OSTs, which are not known')

    call decode_layout(bytes([v1, raid0, object_id, of_4_mib, 1, 0]), small, found)
    call expect(.not. found%is_known, 'too short')
    call decode_layout(bytes([integer ::]), small, found)
    call expect(.not. found%is_known, 'empty')
    call decode_layout(bytes([(mod(37*i, 256), i=1, 80)]), small, found)
    call expect(.not. found%is_known, 'garbage')

    call parse_layout('stripe_unit=1048576 stripe_count=4 object_size=4194304 ' &
        //'pool=cephfs.data', one)
    call expect(one%stripe_count == 4 .and. one%stripe_size == 1048576 &
        .and. one%pool == 'cephfs.data' .and. size(one%osts) == 0, 'of CephFS')
    call parse_layout('', one)
    call expect(one%stripe_count == unset, 'of no attribute')

    one%stripe_count = 4
    one%stripe_size = 1048576
    one%pool = 'fast'
    call expect(fits(layout_request()), 'nothing asked for')
    call expect(fits(layout_request(stripe_count=4, stripe_size=1048576, pool='fast')), 'all')
    call expect(.not. fits(layout_request(stripe_count=3)), 'another count')
    call expect(.not. fits(layout_request(stripe_count=4, stripe_size=65536)), 'another size')
    call expect(.not. fits(layout_request(pool='fas')), 'another pool')
    call expect(fits(layout_request(stripe_count=-1)), 'all OSTs')
    one%stripe_count = 1
    call expect(.not. fits(layout_request(stripe_count=-1)), 'but one')
    one%pool = ''
    call expect(mismatch(layout_request(pool='fast'), one) &
        == 'the file has pool (none), asked for: pool fast', 'is said')

    text = setstripe_words('/a b/it''s', layout_request(stripe_count=-1, stripe_size=1048576, &
        pool='fast'))
    call expect(text == words('lfs setstripe -c -1 -S 1048576 -p fast')//'/a b/it''s'//nul, &
        'word for word')
    text = setstripe_words('/a', layout_request(setstripe='-E 64M  -c 1 -E -1 -c 4'))
    call expect(text == words('lfs setstripe -E 64M -c 1 -E -1 -c 4 /a'), 'as the site says it')
    text = setstripe_words('/a', layout_request(target='7', stripe_size=65536))
    call expect(text == words('lfs setstripe -c 1 -i 7 -S 65536 /a'), 'one OST')

    call expect(layout_text(layout_request(stripe_count=4, stripe_size=1048576, pool='fast')) &
        == 'stripe_unit=1048576 object_size=4194304 stripe_count=4 pool=fast', 'whole')
    call expect(layout_text(layout_request(stripe_size=3145728)) &
        == 'stripe_unit=3145728 object_size=6291456', 'an object is a multiple of the unit')
    call expect(layout_text(layout_request(stripe_size=8388608)) &
        == 'stripe_unit=8388608 object_size=8388608', 'or one')
    call expect(layout_text(layout_request(target='osd2')) == 'stripe_count=1 pool=osd2', 'one OSD')

    call MPI_Init()     ! a failure knows its rank
    request = layout_request(stripe_count=-1)
    call expect(refusal('lustre', 'lustre', request) == '', 'Lustre has all')
    call expect(index(refusal('ceph', 'ceph', request), 'CephFS has no stripe count') == 1, &
        'CephFS has no such number')
    call expect(refusal('fuse', 'fuse.ceph-fuse', layout_request(stripe_count=2)) == '', 'but this')
    call expect(index(refusal('fuse', 'fuse.ceph-fuse', layout_request(setstripe='-c 1')), &
        'Lustre''s lfs') > 0, 'without lfs')
    call expect(index(refusal('lustre', 'lustre', layout_request(target='osd2')), &
        'the numbers of OSTs, not "osd2"') > 0, 'an OST has a number')
    call expect(refusal('nfs', 'nfs4', layout_request()) == '', 'nothing asked for')
    call expect(index(refusal('nfs', 'nfs4', request), 'on NFS (nfs4), and') > 0, 'of NFS')
    call expect(index(refusal('gpfs', 'gpfs', request), 'on GPFS, and') > 0, 'of GPFS')
    call expect(index(refusal('beegfs', 'beegfs', request), 'on BeeGFS, and') > 0, 'of BeeGFS')
    call expect(index(refusal('wekafs', 'wekafs', request), 'on Weka, and') > 0, 'of Weka')
    call expect(index(refusal('fuse', 'fuse.daos', request), 'DAOS (dfuse), and') > 0, 'of DAOS')
    call expect(index(refusal('fuse', 'fuse.sshfs', request), 'fuse.sshfs, and') > 0, 'another')
    call expect(index(refusal('ext4', 'ext4', request), 'on ext4, and') > 0, 'of a disk')

    call choose_layout_keeper('lustre', entry('lustre'), keeper)
    call check_layout(keeper, '/dev/null', 0_int64, layout_request(), found, error)
    call expect(.not. (found%is_known .or. error%failed()), 'no layout off Lustre')
    call check_layout(keeper, '/dev/null', 0_int64, layout_request(stripe_count=1), found, error)
    call expect(error%status == exit_io, 'so none can be asked for')
    error = failure()
    request = layout_request(stripe_count=1)
    call check_layout(keeper, '/no such file', 0_int64, request, found, error)
    call expect(error%call == 'layout' .and. .not. found%is_known, 'no such file')
    call choose_layout_keeper('nfs', entry('nfs4'), keeper)
    error = failure()
    call check_layout(keeper, '/dev/null', 0_int64, layout_request(), found, error)
    call expect(found%is_known .and. found%said == 'server:/export nfs4 rw', 'what is mounted')
    call expect(identity('lustre', 'lustre', '10.0.0.1@tcp:10.0.0.2@tcp:/scratch') == 'scratch' &
        .and. identity('lustre', 'lustre', '10.0.0.2@o2ib:/scratch/in/it') == 'scratch', &
        'Lustre is known by its name, whatever its servers are')
    call expect(identity('fuse', 'fuse.glusterfs', 'login:/pfs') == 'pfs', 'GlusterFS likewise')
    call expect(identity('ceph', 'ceph', '10.0.0.1:6789:/') == 'fsid', 'CephFS by its cluster')
    call expect(identity('nfs', 'nfs4', 'server:/export') == 'server:/export', 'NFS by its source')
    call expect(identity('gpfs', 'gpfs', 'gpfs1') == 'gpfs1', 'as others')
    call expect(identity('ext4', 'ext4', '/dev/sda', .true.) == 'uuid' .and. &
        identity('btrfs', 'btrfs', '/dev/sda') == 'uuid' .and. &
        identity('new', 'new', '/dev/sda', .true.) == 'uuid', 'a disk by its UUID')
    call expect(identity('zfs', 'zfs', 'tank/scratch') == 'fsid', 'ZFS by its own number')
    call expect(identity('tmpfs', 'tmpfs', 'tmpfs') == '' .and. identity('overlay', 'overlay', &
        'overlay') == '', 'and what is anew after a reboot by its mount point alone')
    call MPI_Finalize()

contains

    !> What a filesystem is known by.
    function identity(filesystem, type, source, has_device)
        character(*), intent(in) :: filesystem, type, source
        logical, intent(in), optional :: has_device
        character(:), allocatable :: identity

        type(mounted_filesystem) :: mounted

        mounted%type = type
        mounted%point = '/nosuch'
        mounted%source = source
        mounted%uuid = 'uuid'
        mounted%fsid = 'fsid'
        if (present(has_device)) mounted%has_device = has_device
        call choose_layout_keeper(filesystem, mounted, keeper)
        identity = keeper%identity()
    end function identity

    logical function holds(count, size, osts)
        integer, intent(in) :: count, size, osts(:)

        holds = found%is_known
        if (.not. holds) return
        associate (held => found%holder)
            holds = held%stripe_count == count .and. held%stripe_size == size &
                .and. ubound(held%osts, 1) == ubound(osts, 1)
            if (holds) holds = all(held%osts == osts)
        end associate
    end function holds

    logical function fits(wanted)
        type(layout_request), intent(in) :: wanted

        fits = mismatch(wanted, one) == ''
    end function fits

    !> Words each ended by NUL.
    pure function words(text) result(list)
        character(*), intent(in) :: text
        character(len(text) + 1) :: list

        integer :: i

        list = text//nul
        do i = 1, len(text)
            if (text(i:i) == ' ') list(i:i) = nul
        end do
    end function words

    function entry(type) result(mounted)
        character(*), intent(in) :: type
        type(mounted_filesystem) :: mounted

        mounted%type = type
        mounted%source = 'server:/export'
        mounted%options = 'rw'
    end function entry

    function refusal(filesystem, type, wanted) result(text)
        character(*), intent(in) :: filesystem, type
        type(layout_request), intent(in) :: wanted
        character(:), allocatable :: text

        call choose_layout_keeper(filesystem, entry(type), keeper)
        text = keeper%refusal(wanted, -1)
    end function refusal

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

end program test_file_layout
