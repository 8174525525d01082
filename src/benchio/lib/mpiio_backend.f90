!> MPI-IO: the array as raw native reals, x fastest; collective writes through a subarray view.
!>
!> The block is selected in memory by a second subarray type, so halos cost no copy, and the
!> count of one instance keeps blocks beyond 2^31 elements right.
module benchio_mpiio_backend
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use mpi_f08, only: MPI_COUNT_KIND, MPI_Comm, MPI_Datatype, MPI_DATATYPE_NULL, MPI_File, &
        MPI_File_close, MPI_File_open, MPI_File_read_all, MPI_File_set_view, MPI_File_sync, &
        MPI_File_write_all, MPI_Get_elements_x, MPI_INFO_NULL, MPI_MODE_CREATE, MPI_MODE_EXCL, &
        MPI_MODE_RDONLY, MPI_MODE_WRONLY, MPI_OFFSET_KIND, MPI_ORDER_FORTRAN, MPI_REAL8, &
        MPI_Status, MPI_Type_commit, MPI_Type_create_subarray, MPI_Type_free, operator(/=)
    use benchio_backend, only: backend
    use benchio_decomposition, only: decomposition
    use benchio_failure, only: check_mpi, exit_io, failure
    use benchio_text, only: decimal
    implicit none (type, external)
    private

    type, extends(backend), public :: mpiio_backend
        private
        type(decomposition) :: block
        character(:), allocatable :: path
        type(MPI_File) :: file
        type(MPI_Datatype) :: in_file = MPI_DATATYPE_NULL, in_memory = MPI_DATATYPE_NULL
    contains
        procedure :: create
        procedure :: define
        procedure :: write
        procedure :: sync
        procedure :: close
        procedure :: open
        procedure :: read
    end type mpiio_backend

contains

    subroutine create(self, path, block, comm, error)
        class(mpiio_backend), intent(inout) :: self
        character(*), intent(in) :: path
        type(decomposition), intent(in) :: block
        type(MPI_Comm), intent(in) :: comm
        type(failure), intent(inout) :: error

        integer :: code

        self%block = block
        self%path = path
        call MPI_File_open(comm, path, MPI_MODE_CREATE + MPI_MODE_EXCL + MPI_MODE_WRONLY, &
            MPI_INFO_NULL, self%file, code)
        call check_mpi(error, code, 'MPI_File_open', path)
    end subroutine create

    subroutine define(self, error)
        class(mpiio_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        integer :: code, sizes(3), subsizes(3), starts(3)

        subsizes = int(self%block%extent)
        sizes = int(self%block%global)
        starts = int(self%block%lower)
        call MPI_Type_create_subarray(3, sizes, subsizes, starts, MPI_ORDER_FORTRAN, &
            MPI_REAL8, self%in_file)
        call MPI_Type_commit(self%in_file)

        sizes = subsizes + 2*int(self%block%halo)
        starts = int(self%block%halo)
        call MPI_Type_create_subarray(3, sizes, subsizes, starts, MPI_ORDER_FORTRAN, &
            MPI_REAL8, self%in_memory)
        call MPI_Type_commit(self%in_memory)

        call MPI_File_set_view(self%file, 0_MPI_OFFSET_KIND, MPI_REAL8, self%in_file, 'native', &
            MPI_INFO_NULL, code)
        call check_mpi(error, code, 'MPI_File_set_view', self%path)
    end subroutine define

    subroutine write(self, field, error)
        class(mpiio_backend), intent(inout) :: self
        real(real64), intent(in), contiguous, target :: field(:, :, :)
        type(failure), intent(inout) :: error

        type(MPI_Status) :: status
        integer :: code

        call MPI_File_write_all(self%file, field, 1, self%in_memory, status, code)
        call check_mpi(error, code, 'MPI_File_write_all', self%path)
        call check_count(self, status, 'MPI_File_write_all', error)
    end subroutine write

    subroutine sync(self, error)
        class(mpiio_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        integer :: code

        call MPI_File_sync(self%file, code)
        call check_mpi(error, code, 'MPI_File_sync', self%path)
    end subroutine sync

    subroutine close(self, error)
        class(mpiio_backend), intent(inout) :: self
        type(failure), intent(inout) :: error

        integer :: code

        if (self%in_file /= MPI_DATATYPE_NULL) call MPI_Type_free(self%in_file)
        if (self%in_memory /= MPI_DATATYPE_NULL) call MPI_Type_free(self%in_memory)
        call MPI_File_close(self%file, code)
        call check_mpi(error, code, 'MPI_File_close', self%path)
    end subroutine close

    subroutine open(self, path, block, comm, error)
        class(mpiio_backend), intent(inout) :: self
        character(*), intent(in) :: path
        type(decomposition), intent(in) :: block
        type(MPI_Comm), intent(in) :: comm
        type(failure), intent(inout) :: error

        integer :: code

        self%block = block
        self%path = path
        call MPI_File_open(comm, path, MPI_MODE_RDONLY, MPI_INFO_NULL, self%file, code)
        call check_mpi(error, code, 'MPI_File_open', path)
        if (error%failed()) return
        call self%define(error)
    end subroutine open

    subroutine read(self, field, error)
        class(mpiio_backend), intent(inout) :: self
        real(real64), intent(inout), contiguous, target :: field(:, :, :)
        type(failure), intent(inout) :: error

        type(MPI_Status) :: status
        integer :: code

        call MPI_File_read_all(self%file, field, 1, self%in_memory, status, code)
        call check_mpi(error, code, 'MPI_File_read_all', self%path)
        call check_count(self, status, 'MPI_File_read_all', error)
    end subroutine read

    !> MPI reports a short transfer as success: the status must hold the whole block.
    subroutine check_count(self, status, call, error)
        class(mpiio_backend), intent(in) :: self
        type(MPI_Status), intent(in) :: status
        character(*), intent(in) :: call
        type(failure), intent(inout) :: error

        integer(MPI_COUNT_KIND) :: moved

        if (error%failed()) return
        call MPI_Get_elements_x(status, MPI_REAL8, moved)
        if (moved /= self%block%elements()) then
            call error%set(exit_io, call, self%path, 'short transfer: ' &
                //decimal(int(moved, int64))//' of '//decimal(self%block%elements())//' elements')
        end if
    end subroutine check_count

end module benchio_mpiio_backend
