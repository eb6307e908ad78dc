/** Something that cannot be read or drawn; the message is shown to the user. */
export class Unavailable extends Error {}
