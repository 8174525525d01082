!> The abstract backend: a library that writes and reads one shared array.
!>
!> Extend it once per library, in one file, and name it in the registry. A repetition calls
!> create, define, write, sync, close, and for verification open, read, close, each on every rank
!> of the communicator. A procedure that fails records the failure and returns; the runner makes
!> the ranks agree before the next call.
module benchio_backend
    use, intrinsic :: iso_fortran_env, only: real64
    use mpi_f08, only: MPI_Comm
    use benchio_decomposition, only: decomposition
    use benchio_failure, only: failure
    implicit none (type, external)
    private

    type, abstract, public :: backend
        character(:), allocatable :: name       !! as given to --backend
        character(:), allocatable :: extension  !! of its files, without the dot
    contains
        procedure(open_file), deferred :: create        !! phase open: a new file, never an old one
        procedure(step), deferred :: define             !! phase define: types, views, metadata
        procedure(write_field), deferred :: write       !! phase write: the block, without halo
        procedure(step), deferred :: sync               !! phase sync: data to stable storage
        procedure(step), deferred :: close              !! phase close
        procedure(open_file), deferred :: open          !! an existing file, for reading
        procedure(read_field), deferred :: read         !! the block, without touching the halo
    end type backend

    abstract interface
        subroutine open_file(self, path, block, comm, error)
            import :: backend, decomposition, failure, MPI_Comm
            class(backend), intent(inout) :: self
            character(*), intent(in) :: path
            type(decomposition), intent(in) :: block    !! this rank's part of the array
            type(MPI_Comm), intent(in) :: comm          !! the ranks that share the file
            type(failure), intent(inout) :: error
        end subroutine open_file

        subroutine step(self, error)
            import :: backend, failure
            class(backend), intent(inout) :: self
            type(failure), intent(inout) :: error
        end subroutine step

        subroutine write_field(self, field, error)
            import :: backend, failure, real64
            class(backend), intent(inout) :: self
            real(real64), intent(in), contiguous, target :: field(:, :, :)  !! with halo
            type(failure), intent(inout) :: error
        end subroutine write_field

        subroutine read_field(self, field, error)
            import :: backend, failure, real64
            class(backend), intent(inout) :: self
            real(real64), intent(inout), contiguous, target :: field(:, :, :)   !! with halo
            type(failure), intent(inout) :: error
        end subroutine read_field
    end interface

end module benchio_backend
