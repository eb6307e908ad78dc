/** A question that cannot be answered; the message is one sentence for the user, as the worker of the tab would give it. */
export class Refusal extends Error {}
