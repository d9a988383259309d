package lease

// Key is a lease's 64 bits in SQL, its name being $1.
const Key = key

// NewPostgresWith is NewPostgres with other times.
var NewPostgresWith = newPostgres
