/* The versions of a thread: as it is, and as it was each time that it went back to an earlier message. */

const keyOf = (message) => `${message?.id} ${JSON.stringify(message?.content)}`;

/** Return the messages of each version, the oldest first, and the thread as it is last. */
function versionsOf(messages, branches) {
  const versions = [messages];
  for (const branch of branches) {
    // A branch may begin in another one.
    const base = branch.after === null ? [] : versions.find((each) => each.some(({ id }) => id === branch.after));
    const end = base?.findIndex(({ id }) => id === branch.after) + 1;
    if (base) versions.push([...base.slice(0, end || 0), ...branch.messages]);
  }
  return versions.reverse();
}

/** Return the versions that continue in another way at a message of one of them, and the place of that one among them. */
function forkAt(versions, shown, place) {
  const isSame = (version) => version.slice(0, place).every((each, at) => keyOf(each) === keyOf(shown[at]));
  const ways = new Map();
  for (const version of versions) {
    if (version.length > place && isSame(version)) ways.set(keyOf(version[place]), version);
  }
  const keys = [...ways.keys()];
  return { ways: [...ways.values()], at: keys.indexOf(keyOf(shown[place])) };
}
