$constants
@$weights = external constant i8
declare void @free(ptr)
declare i64 @syscall(i64, ...)

define hidden ptr @${weights}_address() {
  ret ptr @$weights
}

define void @${name}_free(ptr %data) {
  call void @free(ptr %data)
  ret void
}

define ptr @${name}_message(i32 %status) {
  switch i32 %status, label %other [
$cases
  ]
$labels
}

define void @${name}_free_workspace(ptr %workspace) {
  %place = getelementptr i64, ptr %workspace, i64 2
  %owner = load ptr, ptr %place
  %unused = icmp eq ptr %owner, null
  br i1 %unused, label %done, label %free
free:
  %status = call i32 %owner(ptr %workspace)
  store ptr null, ptr %place
  br label %done
done:
  ret void
}
