/** The promise kept under a key, made when it is first needed. One that fails is not kept, so that the next call tries again. */
export function keptPromise(promises, key, make) {
  if (!promises.has(key)) {
    const promise = make();
    promises.set(key, promise);
    promise.catch(() => promises.delete(key));
  }
  return promises.get(key);
}
