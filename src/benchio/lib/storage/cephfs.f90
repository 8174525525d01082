!> Layouts on CephFS: extended attributes that its metadata server reads and writes.
!>
!> A file is striped in units over so many objects at a time, each of which is filled up to its own
!> size. A pool is what says on which OSDs objects may be; one with a single OSD addresses it.
module benchio_cephfs
    use, intrinsic :: iso_fortran_env, only: int64, int8
    use benchio_failure, only: exit_io, failure
    use benchio_file_layout, only: add_component, component, file_layout, layout_keeper, &
        layout_request, unset
    use benchio_posix, only: get_attribute, set_attribute
    use benchio_text, only: decimal
    implicit none (type, external)
    private

    public :: layout_text, parse_layout

    type, extends(layout_keeper), public :: cephfs_keeper
    contains
        procedure :: identity
        procedure :: refusal
        procedure :: set
        procedure :: observe
        procedure :: echo
        procedure :: exchanged
    end type cephfs_keeper

contains

    !> The cluster's fsid. Kernels before 5.11 do not tell it, but make the number of statfs of it.
    function identity(self) result(text)
        class(cephfs_keeper), intent(in) :: self
        character(:), allocatable :: text

        character(:), allocatable :: ignored
        integer(int8), allocatable :: bytes(:)
        integer :: i

        call get_attribute(self%mounted%point, 'ceph.cluster_fsid', bytes, ignored)
        allocate (character(size(bytes)) :: text)
        do i = 1, size(bytes)
            text(i:i) = achar(bytes(i))
        end do
        if (text == '') text = self%mounted%fsid
    end function identity

    function refusal(self, request, mdt_index) result(text)
        class(cephfs_keeper), intent(in) :: self
        type(layout_request), intent(in) :: request
        integer, intent(in) :: mdt_index
        character(:), allocatable :: text

        integer(int64), parameter :: least_unit = 65536

        text = ''
        if (request%setstripe /= '') then
            text = '--setstripe gives options of Lustre''s lfs, and this is '//self%filesystem
        else if (mdt_index >= 0) then
            text = '--mdt-index is for Lustre, and this is '//self%filesystem
        else if (request%stripe_count == -1) then
            text = self%filesystem//' has no stripe count that means all OSDs: --stripe-count ' &
                //'takes their number'
        else if (request%stripe_size > 0 .and. mod(request%stripe_size, least_unit) /= 0) then
            text = 'a stripe of '//self%filesystem//' is a multiple of 65536 bytes, not ' &
                //decimal(request%stripe_size)
        end if
    end function refusal

    subroutine set(self, directory, request, error)
        class(cephfs_keeper), intent(in) :: self
        character(*), intent(in) :: directory
        type(layout_request), intent(in) :: request
        type(failure), intent(inout) :: error

        character(:), allocatable :: message, value

        value = layout_text(request)
        call set_attribute(directory, 'ceph.dir.layout', value, message)
        if (message /= '') call error%set(exit_io, 'setxattr ceph.dir.layout', directory, &
            '"'//value//'" is refused: '//message//' ('//self%filesystem//' takes a pool only if ' &
            //'it is one of its data pools, and any layout only from a client with the flag p in ' &
            //'its capabilities)')
    end subroutine set

    !> The value of ceph.dir.layout, which is set as a whole: one after the other, its parts would
    !> have to be consistent at each step. An object is a multiple of the stripe unit; the smallest
    !> one from 4 MiB up is CephFS's own default where it can be.
    pure function layout_text(request) result(text)
        type(layout_request), intent(in) :: request
        character(:), allocatable :: text

        integer(int64), parameter :: default_object = 4*2_int64**20

        text = ''
        if (request%stripe_size /= unset) then
            text = text//' stripe_unit='//decimal(request%stripe_size)//' object_size=' &
                //decimal(request%stripe_size*max(1_int64, &
                (default_object + request%stripe_size - 1)/request%stripe_size))
        end if
        if (request%stripe_count /= unset) text = text//' stripe_count=' &
            //decimal(request%stripe_count)
        if (request%target /= '') text = text//' stripe_count=1 pool='//trim(request%target)
        if (request%pool /= '') text = text//' pool='//trim(request%pool)
        text = text(2:)
    end function layout_text

    subroutine observe(self, path, bytes, seen, error)
        class(cephfs_keeper), intent(in) :: self
        character(*), intent(in) :: path
        integer(int64), intent(in) :: bytes
        type(file_layout), intent(out) :: seen
        character(:), allocatable, intent(out) :: error

        type(component) :: whole

        call read_layout(path, 'ceph.file.layout', whole, error)
        allocate (seen%components(0))
        seen%said = ''
        seen%is_known = whole%stripe_count /= unset
        if (.not. seen%is_known) return
        call add_component(seen, whole)
        seen%holder = whole
    end subroutine observe

    subroutine echo(self, directory, seen, is_known)
        class(cephfs_keeper), intent(in) :: self
        character(*), intent(in) :: directory
        type(component), intent(out) :: seen
        logical, intent(out) :: is_known

        character(:), allocatable :: ignored

        call read_layout(directory, 'ceph.dir.layout', seen, ignored)
        is_known = seen%stripe_count /= unset
    end subroutine echo

    !> A target of CephFS is a pool.
    function exchanged(self, request, seen) result(text)
        class(cephfs_keeper), intent(in) :: self
        type(layout_request), intent(in) :: request
        type(file_layout), intent(in) :: seen
        character(:), allocatable :: text

        text = ''
        if (request%target == '' .or. (seen%holder%pool == request%target &
            .and. seen%holder%stripe_count == 1)) return
        text = self%filesystem//' has put the file in pool '//trim(seen%holder%pool)//' with ' &
            //decimal(seen%holder%stripe_count)//' stripes at a time instead of pool ' &
            //trim(request%target)//' with one'
    end function exchanged

    subroutine read_layout(path, name, seen, error)
        character(*), intent(in) :: path, name
        type(component), intent(out) :: seen
        character(:), allocatable, intent(out) :: error

        integer(int8), allocatable :: attribute(:)

        call get_attribute(path, name, attribute, error)
        call parse_layout(transfer(attribute, repeat(' ', size(attribute))), seen)
    end subroutine read_layout

    !> "stripe_unit=1048576 stripe_count=4 object_size=4194304 pool=data"; of anything else the
    !> stripe count stays unset.
    pure subroutine parse_layout(text, seen)
        character(*), intent(in) :: text
        type(component), intent(out) :: seen

        seen%pattern = 'raid0'
        allocate (seen%osts(0))
        seen%stripe_count = number_of('stripe_count')
        seen%stripe_size = number_of('stripe_unit')
        seen%pool = value_of('pool')

    contains

        pure function value_of(key) result(value)
            character(*), intent(in) :: key
            character(:), allocatable :: value

            integer :: at, length

            value = ''
            at = index(' '//text, ' '//key//'=')
            if (at == 0) return
            value = text(at + len(key) + 1:)
            length = scan(value//' ', ' '//achar(0)//achar(10)) - 1
            value = value(:length)
        end function value_of

        pure integer(int64) function number_of(key)
            character(*), intent(in) :: key

            character(:), allocatable :: digits

            number_of = unset
            digits = value_of(key)
            if (digits == '' .or. len(digits) > 18 .or. verify(digits, '0123456789') > 0) return
            read (digits, *) number_of
        end function number_of

    end subroutine parse_layout

end module benchio_cephfs
